#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// The vectors that a sort makes, and where their elements were.
struct SortedVectors {
  Value *numbers, *places;  // places: i64
};

// Whether a top_k is faster as a radix sort on a GPU: it keeps all elements of one long vector, in
// ascending order, and has few digits (kBelow).
bool TakesDigits(const Node& top_k, const Ranges& ranges);

// Makes that sort: a pass for each digit, from the last one on, keeps the order that the numbers
// have where the digit is the same.
//
//   %counts = digit_counts(%numbers) {shift, bits, tile}       [digits, tiles]
//   %before = add(cumsum(%counts), cumsum(reduce_sum(%counts)))  where those of a tile begin
//   %numbers_2, %places_2 = order_by_digit(%numbers, %places, %before) {shift, bits, tile}
Result<SortedVectors> SortByDigits(const Node& top_k, const Ranges& ranges, Builder& builder);

}  // namespace fusec
