#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/index/expr.h"
#include "compiler/index/expr_internal.h"

namespace fusec::index_internal {

namespace {

using Term = Expr::Term;

constexpr int64_t kUnboundedSample = 1'000'000;
constexpr int kMaxDepth = 32;

// Evaluates expressions with each symbol at one end of its range. nullopt if a range is empty or a
// value overflows.
class Sample {
 public:
  enum class Corner { kLow, kHigh, kAgainst };

  // kAgainst: each symbol is at the end that makes its linear term in `expr` small.
  Sample(const Expr& expr, Corner corner, const Ranges& ranges)
      : expr_(expr), corner_(corner), ranges_(ranges) {}

  std::optional<int64_t> Evaluate(const Expr& expr, int depth = 0) {
    if (depth > kMaxDepth) return std::nullopt;
    int64_t sum = 0;
    for (const Term& term : expr.terms()) {
      int64_t product = term.coefficient;
      for (const AtomRef& atom : term.atoms) {
        const std::optional<int64_t> value = EvaluateAtom(*atom, depth + 1);
        if (!value || __builtin_mul_overflow(product, *value, &product)) return std::nullopt;
      }
      if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
    }
    return sum;
  }

 private:
  std::optional<int64_t> EvaluateAtom(const Atom& atom, int depth) {
    if (atom.kind == Atom::Kind::kSymbol) return ValueOf(atom, depth);
    const std::optional<int64_t> left = Evaluate(atom.left, depth);
    const std::optional<int64_t> right = Evaluate(atom.right, depth);
    if (!left || !right) return std::nullopt;
    if (atom.kind == Atom::Kind::kMin) return std::min(*left, *right);
    if (atom.kind == Atom::Kind::kMax) return std::max(*left, *right);
    if (*right == 0) return std::nullopt;
    const __int128 quotient = FloorDivide(*left, *right);
    if (quotient > INT64_MAX) return std::nullopt;
    return static_cast<int64_t>(atom.kind == Atom::Kind::kMod ? *left - quotient * *right
                                                              : quotient);
  }

  std::optional<int64_t> ValueOf(const Atom& symbol, int depth) {
    for (const auto& [name, value] : values_) {
      if (name == symbol.name) return value;
    }
    const Ranges::Bounds* bounds = ranges_.Find(symbol.name);
    const std::optional<int64_t> low =
        bounds == nullptr ? -kUnboundedSample : Evaluate(bounds->low, depth);
    const std::optional<int64_t> high =
        bounds == nullptr ? kUnboundedSample : Evaluate(bounds->high, depth);
    if (!low || !high || *low > *high) return std::nullopt;  // a loop without iterations
    const int64_t value = AtLow(symbol) ? *low : *high;
    values_.emplace_back(symbol.name, value);
    return value;
  }

  bool AtLow(const Atom& symbol) const {
    if (corner_ != Corner::kAgainst) return corner_ == Corner::kLow;
    for (const Term& term : expr_.terms()) {
      if (term.atoms.size() == 1 && term.atoms[0]->text == symbol.text) {
        return term.coefficient > 0;
      }
    }
    return false;
  }

  const Expr& expr_;
  const Corner corner_;
  const Ranges& ranges_;
  std::vector<std::pair<std::string_view, int64_t>> values_;
};

}  // namespace

bool HasNegativeSample(const Expr& expr, const Ranges& ranges) {
  for (const auto corner :
       {Sample::Corner::kAgainst, Sample::Corner::kHigh, Sample::Corner::kLow}) {
    const std::optional<int64_t> value = Sample(expr, corner, ranges).Evaluate(expr);
    if (value && *value < 0) return true;
  }
  return false;
}

}  // namespace fusec::index_internal
