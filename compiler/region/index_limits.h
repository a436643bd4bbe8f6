#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/ir/graph.h"

namespace fusec {

// What the values of one input must stay below for every row that they choose to exist.
struct IndexLimits {
  int axis = 0;  // along which the limits differ
  // One for all values, or one for each place of the axis, whose dim is constant. Places of 0, in
  // inputs of floats, need not be integers.
  Exprs limits;
};

// By name, the limits of every input that chooses rows of a table. Followed from the tables back
// through views, casts, and sums, products and quotients with constants: a column of ids that
// reaches one table is bounded by that table's rows, and `ids + offsets` into one stacked table by
// the distance to the next offset where the offsets ascend. Behind a remainder any value is good,
// so that raw ids are bounded by their type alone; an input that reaches no table is not listed.
// Masks (integers of rank 2 and more that are cast to floats) are below 2, floats that are cast to
// integers below 1001 where no table says less. Random data keep to these limits.
std::map<std::string, IndexLimits> FindIndexLimits(const Graph& graph);
// Inputs, by name, that say where bags of rows begin and end: random data ascend along their last
// axis.
std::set<std::string> AscendingInputs(const Graph& graph);

}  // namespace fusec
