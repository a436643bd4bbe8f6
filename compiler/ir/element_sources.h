#pragma once

#include <optional>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// An element of an operand.
struct ElementSource {
  int operand = 0;          // -1: a literal, of no operand
  Exprs index;              // in the operand's coordinates
};

// The index that an integer operand holds at `position`, which chooses among `extent` places;
// nullopt if that is not known.
using IndexAt =
    function_ref<std::optional<Expr>(int operand, ArrayRef<Expr> position, const Expr& extent)>;
inline std::optional<Expr> NoIndexIsKnown(int, ArrayRef<Expr>, const Expr&) { return std::nullopt; }

// The index of any element of a value of that shape: a variable for each axis, whose range is added
// to `ranges`, and 0 for axes of one element.
Exprs AnyIndex(ShapeRef shape, Ranges& ranges);

// Where a view or gather takes element `index` of its result from, as its Lower says; several
// places where `ranges` leave open which one it is. nullopt if the op computes its elements, or
// asks for an index that is not known.
std::optional<std::vector<ElementSource>> ElementSources(const Node& node, int result,
                                                         ArrayRef<Expr> index, const Ranges& ranges,
                                                         IndexAt index_at);

}  // namespace fusec
