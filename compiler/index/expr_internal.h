#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/index/expr.h"
#include "compiler/support/adt.h"

// Declarations shared by the files of this folder; no other folder includes this header.
namespace fusec::index_internal {

// Interval bounds at or beyond +-kInfinity mean "unbounded on this side". It is a quarter of the
// range of int64_t, so that two bounds can be added without overflow.
inline constexpr int64_t kInfinity = INT64_MAX / 4;

inline __int128 FloorDivide(__int128 a, __int128 b) {
  const __int128 quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

// a / b if there is no remainder and the quotient fits in 64 bits (INT64_MIN / -1 does not).
inline std::optional<int64_t> DivideExactly(int64_t a, int64_t b) {
  const __int128 quotient = static_cast<__int128>(a) / b;
  if (quotient * b != a || quotient > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(quotient);
}

// An atom with exactly these operands, not simplified.
AtomRef MakeAtom(Atom::Kind kind, Expr left, Expr right);
inline Expr FromTerm(Expr::Term term) {
  Expr::Terms terms;
  terms.push_back(std::move(term));
  return Expr::FromTerms(std::move(terms));
}
inline Expr FromAtom(AtomRef atom) { return FromTerm({1, {std::move(atom)}}); }
inline bool SameAtom(const AtomRef& a, const AtomRef& b) { return a == b || a->text == b->text; }

// Orders terms by the text of their atoms, the constant term last. Returns a negative number, zero
// or a positive number.
int CompareAtoms(ArrayRef<AtomRef> a, ArrayRef<AtomRef> b);

// `term` without its atom number `position`.
Expr::Term WithoutAtom(const Expr::Term& term, size_t position);

// dividend == quotient * divisor + remainder as polynomials; the remainder is not bounded. For a
// constant divisor the constant term of the remainder lies in [0, divisor). For divisor 0 the
// quotient is 0.
struct Division {
  Expr quotient, remainder;
};
Division DividePolynomial(const Expr& dividend, const Expr& divisor);
std::optional<Expr> ExactQuotient(const Expr& dividend, const Expr& divisor);

// Whether the expression is negative at one of three corners of the ranges. True means that it
// cannot be proven non-negative, so the search for a proof can be skipped; false means nothing.
bool HasNegativeSample(const Expr& expr, const Ranges& ranges);

}  // namespace fusec::index_internal
