#pragma once

#include <map>
#include <string>

#include "compiler/ir/graph.h"

namespace fusec {

// By input, what random data of run-time sizes must keep to.
struct SizeTotals {
  std::map<std::string, Expr> of_lengths;  // all values add up to it
  std::map<std::string, Expr> of_offsets;  // they ascend from 0 and end with it
};

// `lengths` says how a tensor of `total` rows is split. Notes the input that they are made of by
// views, casts and sums, which has lengths then; or by differences besides, which has offsets.
void NoteTotal(const Graph& graph, const Value* lengths, const Expr& total, SizeTotals& totals);

}  // namespace fusec
