#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/ir/graph.h"

namespace fusec {

// The limits below which the values of one input must stay so that all rows that they index exist.
struct IndexLimits {
  int axis = 0;  // the axis along which the limits differ
  // One limit for all values, or one for each index of the axis, whose dim is constant. A limit of
  // 0 marks values of float inputs that need not be integers.
  Exprs limits;
};

// The limits, by name, of every input that provides indices into a table. Random data is generated
// within these limits. They are propagated from the tables back through views, casts, and sums,
// products and quotients with constants: a column of ids that reaches one table is limited by that
// table's rows, and `ids + offsets` into one stacked table by the distance to the next offset if
// the offsets ascend. Before a remainder (mod) any value is valid, so raw ids are limited only by
// their type. Inputs that reach no table are not listed. Masks (integers of rank 2 or more that are
// cast to floats) are limited to 2; floats that are cast to integers to 1001, unless a table has
// fewer rows.
std::map<std::string, IndexLimits> FindIndexLimits(const Graph& graph);
// The names of inputs that hold the bounds of bags of rows. Random data for them ascends along the
// last axis.
std::set<std::string> AscendingInputs(const Graph& graph);

}  // namespace fusec
