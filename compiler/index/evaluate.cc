#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "compiler/index/expr.h"
#include "compiler/index/expr_internal.h"

namespace fusec {

namespace {

Result<int64_t> EvaluateAtom(const Atom& atom, const std::map<std::string, int64_t>& symbols) {
  if (atom.kind == Atom::Kind::kSymbol) {
    const auto found = symbols.find(atom.name);
    if (found == symbols.end()) return ModelError("symbol \"" + atom.name + "\" has no value");
    return found->second;
  }
  FUSEC_ASSIGN(const int64_t left, atom.left.Evaluate(symbols));
  FUSEC_ASSIGN(const int64_t right, atom.right.Evaluate(symbols));
  if (atom.kind == Atom::Kind::kMin) return std::min(left, right);
  if (atom.kind == Atom::Kind::kMax) return std::max(left, right);
  if (right == 0) return ModelError(atom.text + " divides by zero");
  const __int128 quotient = index_internal::FloorDivide(left, right);
  if (atom.kind == Atom::Kind::kMod) return static_cast<int64_t>(left - quotient * right);
  if (quotient > std::numeric_limits<int64_t>::max()) {
    return ModelError(atom.text + " overflows 64 bits");
  }
  return static_cast<int64_t>(quotient);
}

// Rebuilds an expression bottom up. Expressions seldom have more than a handful of distinct atoms,
// so a list is enough to cache rebuilt atoms.
class Substitution {
 public:
  Substitution(function_ref<std::optional<Expr>(const std::string&)> replace, const Ranges& ranges)
      : replace_(replace), ranges_(ranges) {}

  Expr Rebuild(const Expr& expr) {
    Expr::Terms terms;  // products of one term, added up together
    Expr sum;
    for (const Expr::Term& term : expr.terms()) {
      Expr product(term.coefficient);
      for (const AtomRef& atom : term.atoms) product = product * RebuildAtom(atom);
      if (product.terms().size() == 1) {
        terms.push_back(product.terms()[0]);
      } else {
        sum = sum + product;
      }
    }
    return SimplifySum(sum + Expr::FromTerms(std::move(terms)), ranges_);
  }

 private:
  Expr RebuildAtom(const AtomRef& atom) {
    for (const auto& [known, result] : done_) {
      if (known == atom.get()) return result;
    }
    Expr result = Compute(atom);
    done_.emplace_back(atom.get(), result);
    return result;
  }

  Expr Compute(const AtomRef& atom) {
    if (atom->kind == Atom::Kind::kSymbol) {
      std::optional<Expr> replacement = replace_(atom->name);
      return replacement ? *std::move(replacement) : index_internal::FromAtom(atom);
    }
    const Expr left = Rebuild(atom->left), right = Rebuild(atom->right);
    switch (atom->kind) {
      case Atom::Kind::kFloorDiv:
        return FloorDiv(left, right, ranges_);
      case Atom::Kind::kMod:
        return Mod(left, right, ranges_);
      case Atom::Kind::kMin:
        return Min(left, right, ranges_);
      default:
        return Max(left, right, ranges_);
    }
  }

  function_ref<std::optional<Expr>(const std::string&)> replace_;
  const Ranges& ranges_;
  std::vector<std::pair<const Atom*, Expr>> done_;
};

}  // namespace

Expr Expr::Substitute(function_ref<std::optional<Expr>(const std::string&)> replace,
                      const Ranges& ranges) const {
  return Substitution(replace, ranges).Rebuild(*this);
}

// Sums and products are computed in 128 bits, so that only a result that does not fit is an error.
Result<int64_t> Expr::Evaluate(const std::map<std::string, int64_t>& symbols) const {
  __int128 sum = 0;
  bool overflow = false;
  for (const Term& term : terms_) {
    __int128 product = term.coefficient;
    for (const AtomRef& atom : term.atoms) {
      FUSEC_ASSIGN(const int64_t value, EvaluateAtom(*atom, symbols));
      overflow |= __builtin_mul_overflow(product, static_cast<__int128>(value), &product);
    }
    overflow |= __builtin_add_overflow(sum, product, &sum);
  }
  if (overflow || sum < std::numeric_limits<int64_t>::min() ||
      sum > std::numeric_limits<int64_t>::max()) {
    return ModelError(ToString() + " overflows 64 bits");
  }
  return static_cast<int64_t>(sum);
}

}  // namespace fusec
