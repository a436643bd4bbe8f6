#pragma once

#include <optional>
#include <vector>

#include "compiler/import/import_context.h"

namespace fusec {

// One start of a Slice: a number that is known when the model is compiled, or one element of
// run-time data.
struct SliceStart {
  std::optional<Expr> known;
  Value* data = nullptr;  // if it is not known: of one element
};

// The elements of the 1-D integer tensor `starts`, as far as they are known one by one:
// TensorFlow's exporter joins the starts of all axes, of which one may be a loop's counter. nullopt
// if they cannot be told apart.
std::optional<std::vector<SliceStart>> StartsApart(Value* starts, const ImportContext& context);

// A step of at least this size takes at most one element: no dim reaches that far. TensorFlow's
// exporter writes x[i] as a slice by 1e9.
inline constexpr int64_t kOneElementStep = 1'000'000'000;

// Whether the elements of `ends` are at least kOneElementStep in any run, for instance because they
// are the maximum of it and something else.
bool ReachesEveryEnd(const Value* ends, const ImportContext& context);

}  // namespace fusec
