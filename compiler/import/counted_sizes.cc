#include "compiler/import/counted_sizes.h"

#include <algorithm>

#include "compiler/ops/places.h"

namespace fusec {
namespace {

bool IsCount(const AtomRef& atom) {
  return atom->kind == Atom::Kind::kSymbol && atom->name.starts_with(kCountPrefix);
}

// Whether a count occurs in an operand of a quotient, remainder, minimum or maximum.
bool HidesCounts(const AtomRef& atom) {
  return atom->kind != Atom::Kind::kSymbol && (IsCounted(atom->left) || IsCounted(atom->right));
}

}  // namespace

std::string CountSymbol(size_t number) { return kCountPrefix + std::to_string(number); }

bool IsCounted(const Expr& dim) {
  std::vector<std::string> symbols;
  dim.CollectSymbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(),
                     [](const std::string& symbol) { return symbol.starts_with(kCountPrefix); });
}

bool IsCounted(ShapeRef shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Expr& dim) { return IsCounted(dim); });
}

std::vector<int> CountedAxes(ShapeRef shape) {
  std::vector<int> axes;
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    if (IsCounted(shape[axis])) axes.push_back(axis);
  }
  return axes;
}

bool IsSumOfCounts(const Expr& dim) {
  return std::none_of(dim.terms().begin(), dim.terms().end(), [](const Expr::Term& term) {
    return std::any_of(term.atoms.begin(), term.atoms.end(), HidesCounts);
  });
}

Value* SizeAsData(const Expr& size, CountLookup count_of, Formula& f) {
  if (!IsSumOfCounts(size)) return nullptr;
  Value* sum = nullptr;
  Expr rest;  // terms without counts
  for (const Expr::Term& term : size.terms()) {
    if (!IsCounted(Expr::FromTerms({term}))) {
      rest = rest + Expr::FromTerms({term});
      continue;
    }
    Value* product = nullptr;
    Expr::Term factor{term.coefficient, {}};
    for (const AtomRef& atom : term.atoms) {
      if (!IsCount(atom)) {
        factor.atoms.push_back(atom);
        continue;
      }
      Value* count = count_of(atom->name);
      product = product == nullptr ? count : f.Mul(product, count);
    }
    const Expr times = Expr::FromTerms({factor});
    if (!times.IsConstant(1)) product = f.Mul(product, SizeOf(f, times));
    sum = sum == nullptr ? product : f.Add(sum, product);
  }
  if (sum == nullptr) return SizeOf(f, rest);
  return rest.IsConstant(0) ? sum : f.Add(sum, SizeOf(f, rest));
}

}  // namespace fusec
