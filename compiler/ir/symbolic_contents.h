#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace fusec {

// The elements, row-major, of a small integer or bool tensor (static shape, at most 256 elements)
// as expressions of the graph's symbols; nullopt if any of them depends on data. Follows what
// exporters compute shapes with: constants through views, gathers with known indices, ops that say
// what they make of symbols (IntegerFacts::symbolic; comparisons where `ranges` decide them), and
// reductions to one element. Integers of 32 and 64 bits that are not constants are taken not to
// overflow: they are sizes.
std::optional<Exprs> SymbolicContents(const Value* value, const Ranges& ranges);

}  // namespace fusec
