#pragma once

#include <optional>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// An element of an operand.
struct ElementSource {
  int operand = 0;  // -1: a literal that comes from no operand
  Exprs index;      // in the operand's coordinates
};

// Returns the index into `extent` elements that an integer operand holds at `position`; nullopt if
// it is not known.
using IndexAt =
    function_ref<std::optional<Expr>(int operand, ArrayRef<Expr> position, const Expr& extent)>;
inline std::optional<Expr> NoIndexIsKnown(int, ArrayRef<Expr>, const Expr&) { return std::nullopt; }

// A symbolic index of a value of that shape: a variable for each axis, with its range added to
// `ranges`, and 0 for axes of one element.
Exprs AnyIndex(ShapeRef shape, Ranges& ranges);

// Where a view or gather reads element `index` of its result from, found by running its Lower;
// several sources if `ranges` do not decide between them. nullopt if the op computes its elements,
// or needs an index that is not known.
std::optional<std::vector<ElementSource>> ElementSources(const Node& node, int result,
                                                         ArrayRef<Expr> index, const Ranges& ranges,
                                                         IndexAt index_at);

}  // namespace fusec
