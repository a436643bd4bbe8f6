#pragma once

#include <optional>

#include "compiler/import/import_context.h"

namespace fusec {

// What no element of an integer tensor is above, as ops say that make it of run-time data: Min,
// Clip, the number of a mask's elements, positions along an axis. nullopt where none says so.
std::optional<Expr> UpperBound(const Value* value, const ImportContext& context);

// How many of the numbers start, start + step, ... are below input `i`, one integer of run-time
// data with a bound: a run-time count. nullopt where it has no bound.
std::optional<Expr> CountBelowInput(ImportContext& context, int i, const Expr& start = Expr(0),
                                    int64_t step = 1);

}  // namespace fusec
