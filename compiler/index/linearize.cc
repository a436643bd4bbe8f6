#include <algorithm>
#include <utility>

#include "compiler/index/expr.h"
#include "compiler/index/expr_internal.h"
#include "compiler/support/check.h"

namespace fusec {

using index_internal::CompareAtoms;
using index_internal::ExactQuotient;
using index_internal::FromTerm;
using index_internal::WithoutAtom;

namespace {

using Term = Expr::Term;

// Whether every term of `part` is a term of `sum`, with the same coefficient.
bool Contains(const Expr& sum, const Expr& part) {
  if (part.terms().empty() || part.terms().size() > sum.terms().size()) return false;
  auto term = sum.terms().begin();
  for (const Term& wanted : part.terms()) {
    while (term != sum.terms().end() && CompareAtoms(term->atoms, wanted.atoms) < 0) ++term;
    if (term == sum.terms().end() || term->coefficient != wanted.coefficient ||
        CompareAtoms(term->atoms, wanted.atoms) != 0) {
      return false;
    }
  }
  return true;
}

// c*k*mod(floordiv(e, k) + more, a) + c*mod(e, k)  ->  c*mod(e + k*more, a*k)  for a > 0,
// where `low` is the term c*mod(e, k).
std::optional<Expr> MergeMods(const Expr& sum, const Term& low, const Expr& factor,
                              const Atom& low_mod, const Expr& low_quotient, const Ranges& ranges) {
  const Expr wanted = factor * low_mod.right;
  for (const Term& high : sum.terms()) {
    if (&high == &low) continue;
    for (size_t i = 0; i < high.atoms.size(); ++i) {
      const Atom& high_mod = *high.atoms[i];
      if (high_mod.kind != Atom::Kind::kMod || !Contains(high_mod.left, low_quotient)) continue;
      if (FromTerm(WithoutAtom(high, i)) != wanted) continue;
      if (!ranges.ProvenNonNegative(high_mod.right)) continue;
      const Expr more = high_mod.left - low_quotient;
      return sum - FromTerm(low) - FromTerm(high) +
             factor *
                 Mod(low_mod.left + low_mod.right * more, high_mod.right * low_mod.right, ranges);
    }
  }
  return std::nullopt;
}

// One step of SimplifySum, or nothing if there is none. Each step makes the sum shorter.
std::optional<Expr> MergeOnce(const Expr& sum, const Ranges& ranges) {
  for (const Term& term : sum.terms()) {
    for (size_t i = 0; i < term.atoms.size(); ++i) {
      const Atom& atom = *term.atoms[i];
      if (atom.kind == Atom::Kind::kMod) {
        // c*mod(e, k): does the sum contain c*k*floordiv(e, k)?
        const Expr factor = FromTerm(WithoutAtom(term, i));
        const Expr quotient = FloorDiv(atom.left, atom.right, ranges);
        const Expr partner = factor * atom.right * quotient;
        if (Contains(sum, partner)) return sum - FromTerm(term) - partner + factor * atom.left;
        if (auto merged = MergeMods(sum, term, factor, atom, quotient, ranges)) return merged;
      } else if (atom.kind == Atom::Kind::kFloorDiv) {
        // c*k*floordiv(e, k), whose mod was simplified to something without a mod by k.
        const auto factor = ExactQuotient(FromTerm(WithoutAtom(term, i)), atom.right);
        if (!factor) continue;
        const Expr partner = *factor * Mod(atom.left, atom.right, ranges);
        if (Contains(sum, partner)) return sum - FromTerm(term) - partner + *factor * atom.left;
      }
    }
  }
  return std::nullopt;
}

bool HasDivision(const Expr& expr) {
  for (const Term& term : expr.terms()) {
    for (const AtomRef& atom : term.atoms) {
      if (atom->kind == Atom::Kind::kMod || atom->kind == Atom::Kind::kFloorDiv) return true;
    }
  }
  return false;
}

}  // namespace

Expr SimplifySum(const Expr& expr, const Ranges& ranges) {
  if (expr.terms().size() < 2 || !HasDivision(expr)) return expr;
  Expr sum = expr;
  while (std::optional<Expr> shorter = MergeOnce(sum, ranges)) sum = *std::move(shorter);
  return sum;
}

// Horner's scheme, simplified after each step: the sum of the leading coordinates is then already a
// single floordiv when the matching mod is added.
Expr Linearize(ArrayRef<Expr> index, ArrayRef<Expr> shape, const Ranges& ranges) {
  FUSEC_CHECK(
      index.size() == shape.size(),
      std::to_string(index.size()) + " coordinates for rank " + std::to_string(shape.size()));
  Expr position;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    position = SimplifySum(position * shape[axis] + index[axis], ranges);
  }
  return position;
}

Exprs Delinearize(const Expr& position, ArrayRef<Expr> shape, const Ranges& ranges) {
  Exprs index(shape.size());
  const Expr count = Product(shape);
  if (count.IsConstant(0)) return index;  // nothing to index, and no division by zero to write
  const bool inside = ranges.ProvenNonNegative(position) && ranges.ProvenLess(position, count);
  size_t leading = 0;
  while (leading < shape.size() && shape[leading].IsConstant(1)) ++leading;
  Expr stride = 1;
  for (size_t axis = shape.size(); axis-- > leading;) {
    if (shape[axis].IsConstant(1)) continue;
    Expr coordinate = FloorDiv(position, stride, ranges);
    const bool in_range = axis == leading && inside;
    index[axis] = in_range ? std::move(coordinate) : Mod(coordinate, shape[axis], ranges);
    stride = stride * shape[axis];
  }
  return index;
}

}  // namespace fusec
