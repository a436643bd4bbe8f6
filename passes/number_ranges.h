#pragma once

#include <limits>

#include "compiler/ir/graph.h"

namespace fusec {

// What is known of all elements of a value that are not NaN.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity();
  double greatest = std::numeric_limits<double>::infinity();
  bool is_whole = false;  // whole numbers or infinities
  bool is_half = false;   // numbers that f16 holds exactly
};

// Found from the ops that make the value and, for constants, from how they were made. Elements of
// constants are only looked at if a constant has one element, or if a pass chose them; what is
// known of others is true for all weights of the same dtype.
NumberRange RangeOf(const Value* value);

// Whether f16 holds all elements exactly.
bool IsExactInHalf(const Value* value);

}  // namespace fusec
