#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace fusec {

// The tensor that a value is, if it depends on constants alone and is known to whoever asks; else
// null.
using ConstantLookup = function_ref<const TensorData*(const Value*)>;

// The elements, row-major, of a small integer or bool tensor (static shape, at most 256 elements)
// as expressions of the graph's symbols; nullopt if any of them depends on data. Follows what
// exporters compute shapes with: constants through views, gathers with known indices, ops that say
// what they make of symbols (IntegerFacts::symbolic; comparisons where `ranges` decide them), and
// reductions to one element. A float tensor is followed, too, while its elements are integers that
// its dtype holds exactly: exporters count in floats. Values that no such rule follows are asked of
// `constant_of`. Integers of 32 and 64 bits that are not constants are taken not to overflow: they
// are sizes.
std::optional<Exprs> SymbolicContents(const Value* value, const Ranges& ranges,
                                      ConstantLookup constant_of = nullptr);

}  // namespace fusec
