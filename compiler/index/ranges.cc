#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/index/expr.h"
#include "compiler/index/expr_internal.h"
#include "compiler/support/check.h"

namespace fusec {

using index_internal::ExactQuotient;
using index_internal::FloorDivide;
using index_internal::FromTerm;
using index_internal::kInfinity;
using index_internal::SameAtom;
using index_internal::WithoutAtom;

namespace {

using Interval = Ranges::Interval;
using Term = Expr::Term;

constexpr int kMaxBoundDepth = 16;  // bounds of bounds of bounds ...
constexpr int kMaxProofDepth = 8;   // symbols eliminated one after the other
constexpr int kProofBudget = 48;    // expressions looked at for one proof
constexpr Interval kUnknown{-kInfinity, kInfinity};

int64_t Clamp(__int128 value) {
  return static_cast<int64_t>(std::clamp<__int128>(value, -kInfinity, kInfinity));
}

// low == -kInfinity and high == kInfinity mean unbounded and stay so; the two other combinations
// are bounds that were cut to the nearest number we keep, which is still true of them.
Interval Add(Interval a, Interval b) {
  return {a.low == -kInfinity || b.low == -kInfinity ? -kInfinity : Clamp(a.low + b.low),
          a.high == kInfinity || b.high == kInfinity ? kInfinity : Clamp(a.high + b.high)};
}

Interval Multiply(Interval a, Interval b) {
  const __int128 corners[] = {
      static_cast<__int128>(a.low) * b.low, static_cast<__int128>(a.low) * b.high,
      static_cast<__int128>(a.high) * b.low, static_cast<__int128>(a.high) * b.high};
  return {Clamp(*std::min_element(corners, corners + 4)),
          Clamp(*std::max_element(corners, corners + 4))};
}

Interval FloorDivInterval(Interval a, Interval b) {
  if (b.high < 0) {
    a = {-a.high, -a.low};
    b = {-b.high, -b.low};
  }
  // Zero is undefined, so a divisor that is never negative is at least 1.
  if (b.low == 0) b = {1, std::max<int64_t>(b.high, 1)};
  if (b.low < 0) {  // of either sign: no larger than the dividend
    const int64_t bound = std::max(std::abs(a.low), std::abs(a.high));
    return {-bound, bound};
  }
  const int64_t low = Clamp(FloorDivide(a.low, a.low < 0 ? b.low : b.high));
  const int64_t high = Clamp(FloorDivide(a.high, a.high < 0 ? b.high : b.low));
  return {a.low == -kInfinity ? -kInfinity : low, a.high == kInfinity ? kInfinity : high};
}

Interval ModInterval(Interval a, Interval b) {
  if (b.low < 0 && b.high > 0) return {b.low + 1, b.high - 1};
  if (b.low < 0) return {b.low == -kInfinity ? -kInfinity : b.low + 1, 0};
  const int64_t below = b.high == kInfinity ? kInfinity : std::max<int64_t>(b.high - 1, 0);
  return {0, a.low >= 0 ? std::min(a.high, below) : below};
}

Interval IntervalOfExpr(const Expr& expr, const Ranges& ranges, int depth);

Interval IntervalOfAtom(const Atom& atom, const Ranges& ranges, int depth) {
  if (depth > kMaxBoundDepth) return kUnknown;
  if (atom.kind == Atom::Kind::kSymbol) {
    const Ranges::Bounds* bounds = ranges.Find(atom.name);
    if (bounds == nullptr) return kUnknown;
    return {IntervalOfExpr(bounds->low, ranges, depth + 1).low,
            IntervalOfExpr(bounds->high, ranges, depth + 1).high};
  }
  const Interval a = IntervalOfExpr(atom.left, ranges, depth + 1);
  const Interval b = IntervalOfExpr(atom.right, ranges, depth + 1);
  switch (atom.kind) {
    case Atom::Kind::kFloorDiv:
      return FloorDivInterval(a, b);
    case Atom::Kind::kMod:
      return ModInterval(a, b);
    case Atom::Kind::kMin:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    default:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
  }
}

Interval IntervalOfExpr(const Expr& expr, const Ranges& ranges, int depth) {
  Interval sum{0, 0};
  for (const Term& term : expr.terms()) {
    Interval product{Clamp(term.coefficient), Clamp(term.coefficient)};
    for (const AtomRef& atom : term.atoms) {
      product = Multiply(product, IntervalOfAtom(*atom, ranges, depth));
    }
    sum = Add(sum, product);
  }
  return sum;
}

// Proves expressions non-negative by replacing one atom after the other by a bound: where
// expr = atom*factor + rest and factor >= 0, expr >= low(atom)*factor + rest. True for each value
// of the symbols by itself, so `factor` and `rest` may mention the atom again.
class Prover {
 public:
  explicit Prover(const Ranges& ranges) : ranges_(ranges) {}

  bool NonNegative(const Expr& expr, int depth) {
    const Interval interval = ranges_.IntervalOf(expr);
    if (interval.low >= 0) return true;
    if (interval.high < 0 || depth == 0 || --budget_ < 0) return false;
    std::vector<AtomRef> tried;
    for (const Term& term : expr.terms()) {
      for (const AtomRef& atom : term.atoms) {
        const bool repeated = std::any_of(tried.begin(), tried.end(), [&](const AtomRef& other) {
          return SameAtom(other, atom);
        });
        if (repeated) continue;
        tried.push_back(atom);
        if (Worthwhile(atom, expr) && Eliminate(expr, atom, depth)) return true;
      }
    }
    return false;
  }

 private:
  // A symbol with bounds that are numbers tells the interval all, unless it stands in a product or
  // more than once.
  bool Worthwhile(const AtomRef& atom, const Expr& expr) const {
    if (atom->kind != Atom::Kind::kSymbol) return true;
    const Ranges::Bounds* bounds = ranges_.Find(atom->name);
    if (bounds == nullptr) return false;
    if (!bounds->low.AsConstant() || !bounds->high.AsConstant()) return true;
    int uses = 0;
    for (const Term& term : expr.terms()) {
      const bool uses_atom =
          std::any_of(term.atoms.begin(), term.atoms.end(),
                      [&](const AtomRef& other) { return SameAtom(other, atom); });
      uses += uses_atom ? (term.atoms.size() > 1 ? 2 : 1) : 0;
    }
    return uses > 1;
  }

  bool Eliminate(const Expr& expr, const AtomRef& atom, int depth) {
    std::vector<Term> factor_terms, rest_terms;
    for (const Term& term : expr.terms()) {
      const auto found = std::find_if(term.atoms.begin(), term.atoms.end(),
                                      [&](const AtomRef& other) { return SameAtom(other, atom); });
      if (found == term.atoms.end()) {
        rest_terms.push_back(term);
      } else {
        factor_terms.push_back(WithoutAtom(term, static_cast<size_t>(found - term.atoms.begin())));
      }
    }
    const Expr factor = Expr::FromTerms(std::move(factor_terms));
    const Expr rest = Expr::FromTerms(std::move(rest_terms));
    if (NonNegative(factor, depth - 1)) return WithBounds(*atom, factor, rest, true, depth - 1);
    if (NonNegative(-factor, depth - 1)) return WithBounds(*atom, factor, rest, false, depth - 1);
    return false;
  }

  // Whether atom*factor + rest >= 0, the atom taken at its low bound or its high one.
  bool WithBounds(const Atom& atom, const Expr& factor, const Expr& rest, bool low, int depth) {
    const auto holds_at = [&](const Expr& bound) {
      return NonNegative(bound * factor + rest, depth);
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
      case Atom::Kind::kFloorDiv:
        return WithQuotient(atom, factor, rest, low, depth);
      case Atom::Kind::kMin:
        return low ? holds_at(atom.left) && holds_at(atom.right)
                   : holds_at(atom.left) || holds_at(atom.right);
      default:
        return low ? holds_at(atom.left) || holds_at(atom.right)
                   : holds_at(atom.left) && holds_at(atom.right);
    }
  }

  // x - d + 1 <= d*floordiv(x, d) <= x for d > 0; and floordiv grows with x, so it is bounded by
  // the quotients of the bounds of x.
  bool WithQuotient(const Atom& atom, const Expr& factor, const Expr& rest, bool low, int depth) {
    const Expr &dividend = atom.left, &divisor = atom.right;
    if (!NonNegative(divisor, depth)) return false;
    if (const std::optional<Expr> count = ExactQuotient(factor, divisor)) {
      const Expr multiple = low ? dividend - divisor + 1 : dividend;
      if (NonNegative(multiple * *count + rest, depth)) return true;
    }
    const std::optional<Expr> bound = LinearBound(dividend, low);
    return bound && NonNegative(FloorDiv(*bound, divisor, ranges_) * factor + rest, depth);
  }

  // A bound of a sum of symbols, each replaced by its own bound once; nothing if that changes
  // nothing.
  std::optional<Expr> LinearBound(const Expr& expr, bool low) const {
    Expr bound;
    bool changed = false;
    for (const Term& term : expr.terms()) {
      const Ranges::Bounds* bounds = nullptr;
      if (term.atoms.size() == 1 && term.atoms[0]->kind == Atom::Kind::kSymbol) {
        bounds = ranges_.Find(term.atoms[0]->name);
      }
      if (bounds == nullptr) {
        bound = bound + FromTerm(term);
      } else {
        changed = true;
        const bool at_low = low == (term.coefficient > 0);
        bound = bound + (at_low ? bounds->low : bounds->high) * Expr(term.coefficient);
      }
    }
    if (!changed) return std::nullopt;
    return bound;
  }

  const Ranges& ranges_;
  int budget_ = kProofBudget;
};

}  // namespace

void Ranges::Set(const std::string& symbol, Expr low, Expr high) {
  std::vector<std::string> names;
  low.CollectSymbols(names);
  high.CollectSymbols(names);
  FUSEC_CHECK(std::find(names.begin(), names.end(), symbol) == names.end(),
              "bounds of " + symbol + " mention it: " + low.ToString() + ", " + high.ToString());
  bounds_[symbol] = Bounds{std::move(low), std::move(high)};
}

const Ranges::Bounds* Ranges::Find(const std::string& symbol) const {
  const auto found = bounds_.find(symbol);
  return found == bounds_.end() ? nullptr : &found->second;
}

Ranges::Interval Ranges::IntervalOf(const Expr& expr) const {
  return IntervalOfExpr(expr, *this, 0);
}

bool Ranges::ProvenNonNegative(const Expr& expr) const {
  if (IntervalOf(expr).low >= 0) return true;
  if (bounds_.empty() && expr.terms().size() < 2) return false;
  return Prover(*this).NonNegative(expr, kMaxProofDepth);
}

}  // namespace fusec
