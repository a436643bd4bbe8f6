#pragma once

#include <optional>

#include "compiler/import/import_context.h"

namespace fusec {

// What no element of an integer tensor is above, as ops say that make it of run-time data: Min,
// Clip, the number of a mask's elements, positions along an axis. nullopt where none says so.
std::optional<Expr> UpperBound(const Value* value, const ImportContext& context);
// What none is below, in the same way.
std::optional<Expr> LowerBound(const Value* value, const ImportContext& context);

// `a` - `b`, one integer each, where it depends on no run-time data although they may: end and
// start of a range are `past + length` and `past`.
std::optional<Expr> KnownDifference(const Value* a, const Value* b, const ImportContext& context);

// How many of the numbers start, start + step, ... come before `limit`, one integer of run-time
// data each; step is not 0. A run-time count, where it has a bound; else nullopt.
std::optional<Expr> CountBetween(ImportContext& context, Value* start, Value* limit, int64_t step);

}  // namespace fusec
