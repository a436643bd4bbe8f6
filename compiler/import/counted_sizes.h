#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ops/formula.h"

namespace fusec {

// Sizes that are made of run-time counts (run_time_counts.h). A tensor with such a size gets as
// many rows as it can have along that axis, and the rows behind the size hold anything.

// How the symbols of counts begin, and no dim of a model: count `number` has the number behind it.
inline constexpr char kCountPrefix[] = "run_time_count_";
std::string CountSymbol(size_t number);
bool IsCounted(const Expr& dim);
bool IsCounted(ShapeRef shape);
// The axes that are counted.
std::vector<int> CountedAxes(ShapeRef shape);
// Whether a size is a sum of products of counts and other sizes, as rows and their concatenation
// have it: no count is inside of a quotient, remainder or extremum.
bool IsSumOfCounts(const Expr& dim);

// The scalar i64 that holds a count at run time; null for other symbols.
using CountLookup = function_ref<Value*(const std::string& symbol)>;
// A size as run-time data; null where it is no sum of counts. (SizeOf of places.h is what its
// counts can be at most, as bounds take their place in the end.)
Value* SizeAsData(const Expr& size, CountLookup count_of, Formula& f);

}  // namespace fusec
