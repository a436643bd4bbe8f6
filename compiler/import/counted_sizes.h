#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ops/formula.h"

namespace fusec {

// Sizes that are made of run-time counts (run_time_counts.h). A tensor with such a size is
// allocated with as many rows as it can have at most along that axis; the rows past the true size
// are padding with undefined contents.

// The symbol of count `number` is this prefix and the number. No dim of a model has such a name.
inline constexpr char kCountPrefix[] = "run_time_count_";
std::string CountSymbol(size_t number);
bool IsCounted(const Expr& dim);
bool IsCounted(ShapeRef shape);
// The axes whose sizes contain counts.
std::vector<int> CountedAxes(ShapeRef shape);
// Whether a size is a sum of products of counts and other sizes: no count is an operand of a
// quotient, remainder, minimum or maximum.
bool IsSumOfCounts(const Expr& dim);

// Returns the scalar i64 that holds a count at run time, or null for other symbols.
using CountLookup = function_ref<Value*(const std::string& symbol)>;
// A size as a scalar i64 that is computed at run time from the counts; null if IsSumOfCounts is
// false. (SizeOf of places.h gives the largest possible size instead, because counts in it are
// replaced by their bounds at the end.)
Value* SizeAsData(const Expr& size, CountLookup count_of, Formula& f);

}  // namespace fusec
