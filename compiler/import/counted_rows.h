#pragma once

#include "compiler/ir/graph.h"
#include "compiler/ops/formula.h"

namespace fusec {

// Nodes that read tensors whose size is a run-time count (run_time_counts.h). Such a tensor gets as
// many rows as it can have, and the rows behind its count hold anything.

// How the symbols of counts begin, and no dim of a model: count `number` has the number behind it.
inline constexpr char kCountPrefix[] = "run_time_count_";
std::string CountSymbol(size_t number);
bool IsCounted(const Expr& dim);
bool IsCounted(ShapeRef shape);

// The scalar i64 that holds a count at run time; null for other symbols.
using CountLookup = function_ref<Value*(const std::string& symbol)>;
// A size as run-time data; null where a count is inside of a quotient, remainder or extremum.
Value* SizeAsData(const Expr& size, CountLookup count_of, Formula& f);

// Whether rows behind the count of an operand only reach rows behind that of the result, as where
// each row is computed from the same row of the operands.
bool IsRowLocal(const Node& node);

// What gives the answer of a node that is not row-local, whatever the rows behind a count hold; one
// value for each result, and none where fusec has no rule. Indices behind the count become 0, so
// that no look-up of them fails, and look-ups in counted rows end at the count:
//
//   %sum = reduce_sum(%x: f32[count, 8]) {axes = [0]}
//     =>  %sum = reduce_sum(where(iota < count, %x, 0)) {axes = [0]}
ValueList WithoutRowsBehind(const Node& node, CountLookup count_of, const Ranges& ranges,
                            Builder& builder);

}  // namespace fusec
