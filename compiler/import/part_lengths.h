#pragma once

#include <map>
#include <string>

#include "compiler/ir/graph.h"

namespace fusec {

// Constraints that randomly generated input data must satisfy where inputs determine sizes at run
// time, by input name.
struct SizeTotals {
  std::map<std::string, Expr> of_lengths;  // the sum of all values
  std::map<std::string, Expr> of_offsets;  // the last value; the values ascend from 0
};

// `lengths` holds the lengths of the parts of a tensor of `total` rows. If it is computed from a
// single input by views, casts and sums, that input is noted as lengths; if differences are taken
// as well, it is noted as offsets.
void NoteTotal(const Graph& graph, const Value* lengths, const Expr& total, SizeTotals& totals);

}  // namespace fusec
