#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/ir/graph.h"

namespace fusec {

// For every integer input that chooses rows of a table: its values must be below this for every row to exist. Followed from the
// tables back through views, casts, and sums, products and quotients with constants, so that `ids + offsets` into one stacked table
// is bounded by the table's rows less the largest offset. By name of the input; an input that reaches no table is not listed, nor is
// one behind a remainder or a comparison, where any value is good. Masks (inputs of rank 2 and more that are cast to floats) are below 2.
// Random test data keep to these limits.
std::map<std::string, Expr> IndexLimits(const Graph& graph);
// Inputs, by name, that say where bags of rows begin and end: random test data ascend along their last axis.
std::set<std::string> AscendingInputs(const Graph& graph);

}  // namespace fusec
