#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/index/expr.h"
#include "compiler/index/expr_internal.h"
#include "compiler/support/check.h"

namespace fusec {

using index_internal::FloorDivide;
using index_internal::kInfinity;

namespace {

using Interval = Ranges::Interval;
using Term = Expr::Term;

constexpr int kMaxBoundDepth = 16;  // nested bounds and atoms
constexpr Interval kUnknown{-kInfinity, kInfinity};

int64_t Clamp(__int128 value) {
  return static_cast<int64_t>(std::clamp<__int128>(value, -kInfinity, kInfinity));
}

// A low of -kInfinity and a high of kInfinity mean unbounded and stay so. A low of kInfinity or a
// high of -kInfinity is a bound that was clamped to the representable range, where it still holds.
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
  // Division by zero is undefined, so a divisor that is never negative is at least 1.
  if (b.low == 0) b = {1, std::max<int64_t>(b.high, 1)};
  if (b.low < 0) {  // either sign: |quotient| <= |dividend|
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

}  // namespace fusec
