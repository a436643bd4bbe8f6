#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/index/expr.h"
#include "compiler/index/expr_internal.h"

namespace fusec {

using index_internal::DividePolynomial;
using index_internal::Division;
using index_internal::ExactQuotient;
using index_internal::SameAtom;
using index_internal::WithoutAtom;

namespace {

using Term = Expr::Term;

constexpr int kMaxProofDepth = 8;   // nested replacements of atoms
constexpr int kProofBudget = 40;    // expressions examined for one proof
constexpr int kMaxBoundRounds = 8;  // replacements for one bound
constexpr int kMaxBoundDepth = 4;   // nested floordivs

size_t Find(const Term& term, const Atom& atom) {
  size_t i = 0;
  while (i < term.atoms.size() && term.atoms[i].get() != &atom &&
         term.atoms[i]->text != atom.text) {
    ++i;
  }
  return i;
}

// expr = atom*factor + rest, where factor and rest may contain the atom again.
struct Factored {
  Factored(const Expr& expr, const Atom& atom) {
    Expr::Terms factor_terms, rest_terms;
    for (const Term& term : expr.terms()) {
      const size_t position = Find(term, atom);
      if (position == term.atoms.size()) {
        rest_terms.push_back(term);
      } else {
        factor_terms.push_back(WithoutAtom(term, position));
      }
    }
    factor = Expr::FromTerms(std::move(factor_terms));
    rest = Expr::FromTerms(std::move(rest_terms));
  }
  Expr factor, rest;
};

// Proves expressions non-negative by replacing one atom after the other by a bound: where expr =
// atom*factor + rest and factor >= 0, expr >= low(atom)*factor + rest. That holds for each
// assignment of the symbols, even if factor or rest contains the atom.
class Prover {
 public:
  explicit Prover(const Ranges& ranges) : ranges_(ranges) {}

  bool NonNegative(const Expr& expr, int depth) {
    const Ranges::Interval interval = ranges_.IntervalOf(expr);
    if (interval.low >= 0) return true;
    if (interval.high < 0 || depth == 0 || --budget_ < 0) return false;
    if (index_internal::HasNegativeSample(expr, ranges_)) return false;
    for (const AtomRef& atom : Candidates(expr)) {
      const Factored parts(expr, *atom);
      if (NonNegative(parts.factor, depth - 1)) {
        if (WithBounds(*atom, parts, true, depth - 1)) return true;
      } else if (NonNegative(-parts.factor, depth - 1)) {
        if (WithBounds(*atom, parts, false, depth - 1)) return true;
      }
    }
    return false;
  }

 private:
  // The atoms that may be replaced, in the order to try: first floordivs, mods, minima and maxima,
  // then symbols with symbolic bounds, then those of them that others' bounds mention, and last
  // symbols with numeric bounds.
  Atoms Candidates(const Expr& expr) const {
    std::vector<std::pair<int, AtomRef>> ranked;
    for (const Term& term : expr.terms()) {
      for (const AtomRef& atom : term.atoms) {
        const bool known = std::any_of(ranked.begin(), ranked.end(), [&](const auto& other) {
          return SameAtom(other.second, atom);
        });
        if (!known) ranked.emplace_back(Rank(*atom, expr), atom);
      }
    }
    for (auto& [rank, atom] : ranked) {
      if (rank == kLoose && MentionedInBounds(*atom, ranked)) rank = kLooseBase;
    }
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    Atoms atoms;
    for (auto& [rank, atom] : ranked) {
      if (rank != kUseless) atoms.push_back(std::move(atom));
    }
    return atoms;
  }

  enum { kComputed, kLoose, kLooseBase, kNumeric, kUseless };

  int Rank(const Atom& atom, const Expr& expr) const {
    if (atom.kind != Atom::Kind::kSymbol) return kComputed;
    const Ranges::Bounds* bounds = ranges_.Find(atom.name);
    if (bounds == nullptr) return kUseless;
    if (!bounds->low.AsConstant() || !bounds->high.AsConstant()) return kLoose;
    // The interval already accounts for numeric bounds, except that it treats repeated occurrences
    // of a symbol, and factors of a product, as independent.
    int uses = 0;
    for (const Term& term : expr.terms()) {
      if (Find(term, atom) < term.atoms.size()) uses += term.atoms.size() > 1 ? 2 : 1;
    }
    return uses > 1 ? kNumeric : kUseless;
  }

  bool MentionedInBounds(const Atom& symbol, ArrayRef<std::pair<int, AtomRef>> others) const {
    for (const auto& [rank, other] : others) {
      if (rank != kLoose && rank != kLooseBase) continue;
      const Ranges::Bounds* bounds = ranges_.Find(other->name);
      std::vector<std::string> names;
      bounds->low.CollectSymbols(names);
      bounds->high.CollectSymbols(names);
      if (std::find(names.begin(), names.end(), symbol.name) != names.end()) return true;
    }
    return false;
  }

  // Whether atom*factor + rest >= 0 if the atom is replaced by its lower or upper bound.
  bool WithBounds(const Atom& atom, const Factored& parts, bool low, int depth) {
    const auto holds_at = [&](const Expr& bound) {
      return NonNegative(bound * parts.factor + parts.rest, depth);
    };
    switch (atom.kind) {
      case Atom::Kind::kSymbol: {
        const Ranges::Bounds* bounds = ranges_.Find(atom.name);
        return bounds != nullptr && holds_at(low ? bounds->low : bounds->high);
      }
      case Atom::Kind::kMod:
        if (!NonNegative(atom.right, depth)) return false;
        if (low) return holds_at(0);
        return holds_at(atom.right - 1) || (NonNegative(atom.left, depth) && holds_at(atom.left));
      case Atom::Kind::kFloorDiv: {
        if (!NonNegative(atom.right, depth)) return false;
        // x - d + 1 <= d*floordiv(x, d) <= x for d > 0.
        if (const std::optional<Expr> count = ExactQuotient(parts.factor, atom.right)) {
          const Expr multiple = low ? atom.left - atom.right + 1 : atom.left;
          if (NonNegative(multiple * *count + parts.rest, depth)) return true;
        }
        const std::optional<Expr> bound = AtomBound(atom, low, kMaxBoundDepth);
        return bound && holds_at(*bound);
      }
      case Atom::Kind::kMin:
        return low ? holds_at(atom.left) && holds_at(atom.right)
                   : holds_at(atom.left) || holds_at(atom.right);
      default:
        return low ? holds_at(atom.left) || holds_at(atom.right)
                   : holds_at(atom.left) && holds_at(atom.right);
    }
  }

  bool CertainlyNonNegative(const Expr& expr) const { return ranges_.IntervalOf(expr).low >= 0; }

  // A bound of the expression in which atoms are replaced by their bounds as far as possible,
  // greedily and without search.
  Expr Bound(Expr expr, bool low, int depth) const {
    for (int round = 0; round < kMaxBoundRounds; ++round) {
      bool changed = false;
      for (const AtomRef& atom : Candidates(expr)) {
        const Factored parts(expr, *atom);
        const bool grows = CertainlyNonNegative(parts.factor);
        if (!grows && !CertainlyNonNegative(-parts.factor)) continue;
        const std::optional<Expr> bound = AtomBound(*atom, low == grows, depth);
        if (!bound) continue;
        expr = *bound * parts.factor + parts.rest;
        changed = true;
        break;
      }
      if (!changed) break;
    }
    return expr;
  }

  std::optional<Expr> AtomBound(const Atom& atom, bool low, int depth) const {
    if (depth == 0) return std::nullopt;
    if (atom.kind == Atom::Kind::kSymbol) {
      const Ranges::Bounds* bounds = ranges_.Find(atom.name);
      if (bounds == nullptr || (bounds->low.AsConstant() && bounds->high.AsConstant())) {
        return std::nullopt;  // the interval covers it, and the symbol may still cancel
      }
      return low ? bounds->low : bounds->high;
    }
    if (!CertainlyNonNegative(atom.right)) return std::nullopt;
    if (atom.kind == Atom::Kind::kMod) return low ? Expr(0) : atom.right - 1;
    if (atom.kind != Atom::Kind::kFloorDiv) return std::nullopt;
    // floordiv grows with its dividend, so its bound is the quotient of the dividend's bound.
    const Division division = DividePolynomial(Bound(atom.left, low, depth - 1), atom.right);
    const Expr &quotient = division.quotient, &rest = division.remainder;
    if (low) {
      if (CertainlyNonNegative(rest)) return quotient;
      if (CertainlyNonNegative(rest + atom.right)) return quotient - 1;
    } else {
      if (CertainlyNonNegative(-rest - 1)) return quotient - 1;
      if (CertainlyNonNegative(atom.right - rest - 1)) return quotient;
    }
    return std::nullopt;
  }

  const Ranges& ranges_;
  int budget_ = kProofBudget;
};

}  // namespace

bool Ranges::ProvenNonNegative(const Expr& expr) const {
  if (IntervalOf(expr).low >= 0) return true;
  // Without bounds there is no search: expressions that were simplified under ranges and printed
  // are parsed without ranges, and must come out unchanged.
  if (bounds_.empty()) return false;
  return Prover(*this).NonNegative(expr, kMaxProofDepth);
}

}  // namespace fusec
