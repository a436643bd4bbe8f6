#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "compiler/index/expr.h"
#include "compiler/index/expr_internal.h"

namespace fusec {

using index_internal::DivideExactly;
using index_internal::DividePolynomial;
using index_internal::Division;
using index_internal::ExactQuotient;
using index_internal::FloorDivide;
using index_internal::FromAtom;
using index_internal::FromTerm;
using index_internal::kInfinity;
using index_internal::MakeAtom;
using index_internal::SameAtom;
using index_internal::WithoutAtom;

namespace {

using Term = Expr::Term;

// The atoms of `dividend` without those of `divisor`; nullopt if it lacks one of these.
std::optional<Atoms> DivideAtoms(ArrayRef<AtomRef> dividend, ArrayRef<AtomRef> divisor) {
  Atoms rest(dividend);
  for (const AtomRef& atom : divisor) {
    const auto found = std::find_if(rest.begin(), rest.end(),
                                    [&](const AtomRef& other) { return SameAtom(atom, other); });
    if (found == rest.end()) return std::nullopt;
    rest.erase(found);
  }
  return rest;
}

// Coefficients of atoms are divided toward zero (7*i by 3 leaves i, -7*i leaves -i), the constant
// term toward minus infinity.
Division DivideByTerm(const Expr& dividend, const Term& divisor) {
  Expr::Terms quotient, remainder;
  for (const Term& term : dividend.terms()) {
    auto atoms = DivideAtoms(term.atoms, divisor.atoms);
    const __int128 coefficient = term.coefficient;
    const __int128 exact = !atoms               ? 0
                           : term.atoms.empty() ? FloorDivide(coefficient, divisor.coefficient)
                                                : coefficient / divisor.coefficient;
    const int64_t count = exact > INT64_MAX ? 0 : static_cast<int64_t>(exact);
    if (count != 0) quotient.push_back({count, *std::move(atoms)});
    const int64_t left = term.coefficient - count * divisor.coefficient;
    if (left != 0) remainder.push_back({left, term.atoms});
  }
  return {Expr::FromTerms(std::move(quotient)), Expr::FromTerms(std::move(remainder))};
}

// Polynomial division by a sum such as past + sequence, whose leading term is the one with the most
// atoms. A multiple of the divisor is only taken out if that leaves fewer terms.
Division DivideBySum(const Expr& dividend, const Expr& divisor) {
  const Term* lead = &divisor.terms()[0];
  for (const Term& term : divisor.terms()) {
    if (term.atoms.size() > lead->atoms.size()) lead = &term;
  }
  Division division{Expr(), dividend};
  for (const Term& term : dividend.terms()) {
    const auto count = DivideExactly(term.coefficient, lead->coefficient);
    auto atoms = DivideAtoms(term.atoms, lead->atoms);
    if (!count || !atoms) continue;
    const Expr factor = FromTerm({*count, *std::move(atoms)});
    Expr rest = division.remainder - factor * divisor;
    if (rest.terms().size() >= division.remainder.terms().size()) continue;
    division.quotient = division.quotient + factor;
    division.remainder = std::move(rest);
  }
  return division;
}

uint64_t Magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

Term CommonFactor(const Term& a, const Term& b) {
  Term common;
  const uint64_t divisor = std::gcd(Magnitude(a.coefficient), Magnitude(b.coefficient));
  common.coefficient = divisor > INT64_MAX ? 1 : static_cast<int64_t>(divisor);
  Atoms rest = b.atoms;
  for (const AtomRef& atom : a.atoms) {
    const auto found = std::find_if(rest.begin(), rest.end(),
                                    [&](const AtomRef& other) { return SameAtom(atom, other); });
    if (found == rest.end()) continue;
    common.atoms.push_back(atom);
    rest.erase(found);
  }
  return common;
}

// The constant k with k*divisor <= dividend < (k + 1)*divisor, if that is proven.
std::optional<int64_t> KnownQuotient(const Expr& dividend, const Expr& divisor,
                                     const Ranges& ranges) {
  if (dividend.terms().empty()) return 0;
  if (const auto constant = divisor.AsConstant()) {
    const Ranges::Interval interval = ranges.IntervalOf(dividend);
    if (interval.low > -kInfinity && interval.high < kInfinity) {
      const __int128 low = FloorDivide(interval.low, *constant);
      if (low == FloorDivide(interval.high, *constant)) return static_cast<int64_t>(low);
    }
  }
  if (ranges.ProvenNonNegative(dividend)) {
    if (ranges.ProvenLess(dividend, divisor)) return 0;
  } else if (ranges.ProvenLess(dividend, 0) && ranges.ProvenNonNegative(dividend + divisor)) {
    return -1;
  }
  return std::nullopt;
}

// Decomposes a dividend and a divisor, for FloorDiv and Mod alike:
//   dividend = quotient*(scale*divisor) + scale*rest + offset,  0 <= offset < scale
// If `settled`, 0 <= rest < divisor is proven. A divisor of zero is undefined, so what is proven
// non-negative may be taken as positive.
class DividedExpr {
 public:
  DividedExpr(const Expr& dividend, const Expr& divisor_in, const Ranges& ranges)
      : rest(dividend), divisor(divisor_in), ranges_(ranges) {
    settled = Settle();
    while (!settled) {
      if (divisor.IsConstant(1)) {
        quotient = quotient + rest;
        rest = Expr();
        settled = true;
        return;
      }
      Division division = DividePolynomial(rest, divisor);
      if (!division.quotient.IsConstant(0)) {
        quotient = quotient + division.quotient;
        rest = std::move(division.remainder);
        settled = Settle();
      } else if (TakeCommonFactor()) {
        settled = Settle();
      } else {
        return;
      }
    }
  }

  Expr quotient, rest, divisor, scale = 1, offset;
  bool settled = false;

 private:
  bool Settle() {
    const std::optional<int64_t> known = KnownQuotient(rest, divisor, ranges_);
    if (!known) return false;
    quotient = quotient + *known;
    rest = rest - divisor * *known;
    return true;
  }

  // Divides by a common factor of the divisor and some terms of the dividend. For the divisor
  // 12*batch it tries the factors that it shares with single terms; for 6*past + 6*seq also past +
  // seq and its multiples.
  bool TakeCommonFactor() {
    Term content = divisor.terms()[0];
    for (const Term& term : divisor.terms()) content = CommonFactor(content, term);
    if (content.coefficient < 2 && content.atoms.empty()) return false;
    for (const Term& term : rest.terms()) {
      if (term.atoms.empty()) continue;
      const Term factor = CommonFactor(term, content);
      if (factor.coefficient == 1 && factor.atoms.empty()) continue;
      if (TakeFactor(FromTerm(factor), Split(factor))) return true;
    }
    if (divisor.terms().size() == 1) return false;
    const Expr sum = *ExactQuotient(divisor, FromTerm(content));
    const Expr multiples = DividePolynomial(rest, sum).quotient;
    for (const Term& term : multiples.terms()) {
      const Expr factor = sum * FromTerm(CommonFactor(term, content));
      const Division division = DividePolynomial(rest, factor);
      if (!division.quotient.IsConstant(0) && TakeFactor(factor, division)) return true;
    }
    return false;
  }

  // The terms of `rest` that the factor divides without remainder, divided by it, and the other
  // terms.
  Division Split(const Term& factor) const {
    Expr::Terms multiple, small;
    for (const Term& term : rest.terms()) {
      auto atoms = DivideAtoms(term.atoms, factor.atoms);
      const auto exact = DivideExactly(term.coefficient, factor.coefficient);
      if (atoms && exact) {
        multiple.push_back({*exact, *std::move(atoms)});
      } else if (term.atoms.empty() && factor.atoms.empty() && factor.coefficient != -1) {
        const auto count = static_cast<int64_t>(FloorDivide(term.coefficient, factor.coefficient));
        multiple.push_back({count, {}});
        small.push_back({term.coefficient - count * factor.coefficient, {}});
      } else {
        small.push_back(term);
      }
    }
    return {Expr::FromTerms(std::move(multiple)), Expr::FromTerms(std::move(small))};
  }

  // Divides by the factor, if the remainder is proven to be in [0, factor).
  bool TakeFactor(const Expr& factor, const Division& division) {
    const Expr& remainder = division.remainder;
    const Expr new_divisor = *ExactQuotient(divisor, factor);
    const Expr new_offset = scale * remainder + offset;
    if (!new_offset.IsConstant(0) &&
        (!ranges_.ProvenNonNegative(factor) || !ranges_.ProvenNonNegative(new_divisor) ||
         !ranges_.ProvenNonNegative(remainder) || !ranges_.ProvenLess(remainder, factor))) {
      return false;
    }
    rest = division.quotient;
    divisor = new_divisor;
    scale = scale * factor;
    offset = new_offset;
    return true;
  }

  const Ranges& ranges_;
};

bool IsNegativeTerm(const Expr& expr) {
  return expr.terms().size() == 1 && expr.terms()[0].coefficient < 0;
}

std::optional<__int128> ConstantQuotient(const Expr& dividend, const Expr& divisor) {
  if (!dividend.AsConstant() || !divisor.AsConstant()) return std::nullopt;
  return FloorDivide(*dividend.AsConstant(), *divisor.AsConstant());
}

// The atom, if the expression is a single atom; else null.
AtomRef AsAtom(const Expr& expr) {
  if (expr.terms().size() != 1 || expr.terms()[0].coefficient != 1 ||
      expr.terms()[0].atoms.size() != 1) {
    return nullptr;
  }
  return expr.terms()[0].atoms[0];
}

// Drops an inner mod that a mod by `divisor` makes redundant: mod(c*mod(x, m) + y, d) = mod(c*x +
// y, d) where d divides c*m.
std::optional<Expr> DropInnerMod(const Expr& expr, const Expr& divisor) {
  for (const Term& term : expr.terms()) {
    for (size_t i = 0; i < term.atoms.size(); ++i) {
      const Atom& atom = *term.atoms[i];
      if (atom.kind != Atom::Kind::kMod) continue;
      const Expr factor = FromTerm(WithoutAtom(term, i));
      if (!ExactQuotient(factor * atom.right, divisor)) continue;
      return expr - FromTerm(term) + factor * atom.left;
    }
  }
  return std::nullopt;
}

}  // namespace

namespace index_internal {

Division DividePolynomial(const Expr& dividend, const Expr& divisor) {
  if (divisor.terms().empty()) return {0, dividend};
  if (divisor.terms().size() == 1) return DivideByTerm(dividend, divisor.terms()[0]);
  if (divisor == dividend) return {1, Expr()};
  return DivideBySum(dividend, divisor);
}

std::optional<Expr> ExactQuotient(const Expr& dividend, const Expr& divisor) {
  if (divisor.IsConstant(0)) return std::nullopt;
  Division division = DividePolynomial(dividend, divisor);
  if (!division.remainder.IsConstant(0)) return std::nullopt;
  return std::move(division.quotient);
}

}  // namespace index_internal

Expr FloorDiv(const Expr& dividend, const Expr& divisor, const Ranges& ranges) {
  if (divisor.IsConstant(0)) return FromAtom(MakeAtom(Atom::Kind::kFloorDiv, dividend, divisor));
  if (const std::optional<__int128> known = ConstantQuotient(dividend, divisor)) {
    return static_cast<int64_t>(std::min<__int128>(*known, INT64_MAX));
  }
  if (IsNegativeTerm(divisor)) return FloorDiv(-dividend, -divisor, ranges);
  const DividedExpr parts(dividend, divisor, ranges);
  if (parts.settled) return parts.quotient;
  if (const AtomRef inner = AsAtom(parts.rest)) {
    // floordiv(floordiv(x, a), b) = floordiv(x, a*b) for b > 0.
    if (inner->kind == Atom::Kind::kFloorDiv && ranges.ProvenNonNegative(parts.divisor)) {
      return parts.quotient + FloorDiv(inner->left, inner->right * parts.divisor, ranges);
    }
    // floordiv(mod(x, a*b), b) = mod(floordiv(x, b), a) for a > 0.
    if (inner->kind == Atom::Kind::kMod) {
      const std::optional<Expr> count = ExactQuotient(inner->right, parts.divisor);
      if (count && ranges.ProvenNonNegative(*count)) {
        return parts.quotient + Mod(FloorDiv(inner->left, parts.divisor, ranges), *count, ranges);
      }
    }
  }
  return parts.quotient + FromAtom(MakeAtom(Atom::Kind::kFloorDiv, parts.rest, parts.divisor));
}

Expr Mod(const Expr& dividend, const Expr& divisor, const Ranges& ranges) {
  if (divisor.IsConstant(0)) return FromAtom(MakeAtom(Atom::Kind::kMod, dividend, divisor));
  if (const std::optional<__int128> known = ConstantQuotient(dividend, divisor)) {
    return static_cast<int64_t>(*dividend.AsConstant() - *known * *divisor.AsConstant());
  }
  if (IsNegativeTerm(divisor)) return -Mod(-dividend, -divisor, ranges);
  const DividedExpr parts(dividend, divisor, ranges);
  if (parts.settled) return parts.scale * parts.rest + parts.offset;
  if (const std::optional<Expr> simpler = DropInnerMod(parts.rest, parts.divisor)) {
    return parts.scale * Mod(*simpler, parts.divisor, ranges) + parts.offset;
  }
  // mod(-x, k) is what x lacks to the next multiple of k, so that x plus it is seen to be one.
  if (const auto size = parts.divisor.AsConstant(); size > 1 && IsNegativeTerm(parts.rest)) {
    const Expr x = -parts.rest;
    return parts.scale * (CeilDiv(x, parts.divisor, ranges) * parts.divisor - x) + parts.offset;
  }
  return parts.scale * FromAtom(MakeAtom(Atom::Kind::kMod, parts.rest, parts.divisor)) +
         parts.offset;
}

Expr Min(const Expr& a, const Expr& b, const Ranges& ranges) {
  if (ranges.ProvenNonNegative(b - a)) return a;
  if (ranges.ProvenNonNegative(a - b)) return b;
  return FromAtom(b < a ? MakeAtom(Atom::Kind::kMin, b, a) : MakeAtom(Atom::Kind::kMin, a, b));
}

Expr Max(const Expr& a, const Expr& b, const Ranges& ranges) {
  if (ranges.ProvenNonNegative(b - a)) return b;
  if (ranges.ProvenNonNegative(a - b)) return a;
  return FromAtom(b < a ? MakeAtom(Atom::Kind::kMax, b, a) : MakeAtom(Atom::Kind::kMax, a, b));
}

Expr CeilDiv(const Expr& dividend, const Expr& divisor, const Ranges& ranges) {
  if (IsNegativeTerm(divisor)) return CeilDiv(-dividend, -divisor, ranges);
  return FloorDiv(dividend + divisor - 1, divisor, ranges);
}

Expr Product(ArrayRef<Expr> factors) {
  Expr product = 1;
  for (const Expr& factor : factors) product = product * factor;
  return product;
}

bool IsMultiple(const Expr& expr, int64_t divisor) {
  return std::all_of(expr.terms().begin(), expr.terms().end(), [&](const Expr::Term& term) {
    return divisor == -1 || term.coefficient % divisor == 0;
  });
}

}  // namespace fusec
