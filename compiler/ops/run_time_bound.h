#pragma once

#include <optional>
#include <string>

#include "compiler/import/import_context.h"

namespace fusec {

// The elements of an integer tensor, if they do not depend on run-time data.
std::optional<Exprs> KnownContents(const Value* value, const ImportContext& context);

// An upper bound of the elements of an integer tensor that depends on run-time data, derived from
// the ops that compute it: Min, Clip, a count of mask elements, positions along an axis. nullopt if
// there is none.
std::optional<Expr> UpperBound(const Value* value, const ImportContext& context);
// A lower bound, in the same way.
std::optional<Expr> LowerBound(const Value* value, const ImportContext& context);

// The elements of operand `i` of an ONNX node, a vector of sizes, each of which may be run-time data
// that has a bound: a run-time count, at least 0. `what` names the operand in errors.
Result<Exprs> SizesOrCounts(ImportContext& context, int i, const std::string& what);

// `a` - `b`, each one integer, if the difference does not depend on run-time data even though `a`
// and `b` may: for example the end `past + length` and the start `past` of a range.
std::optional<Expr> KnownDifference(const Value* a, const Value* b, const ImportContext& context);

// How many of the numbers start, start + step, ... come before `limit`. Both are one integer of
// run-time data; step is not 0. A run-time count if it has a bound, else nullopt.
std::optional<Expr> CountBetween(ImportContext& context, Value* start, Value* limit, int64_t step);

}  // namespace fusec
