#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"
#include "compiler/reference/reference_context.h"
#include "compiler/support/adt.h"

namespace fusec {

// How far a tensor may be from its reference, and why. `fusec verify` prints the reason.
struct Tolerance {
  double relative_l2 = 0;
  std::string reason;  // "f32 sums in another order"
};
// The tolerance of a result of `dtype` against the interpreter's doubles. The precision is the
// artifact's --matmul-precision.
Tolerance ToleranceOf(Dtype dtype, const std::string& matmul_precision);
// The coarsest float dtype that `output`, or anything it was computed from, is rounded to: an f32
// result of f16 layers is no better than f16. If `output` is not a float, its own dtype.
Dtype CoarsestDtype(const Value* output);

// The comparison of a result with its reference. A NaN must match a NaN, and an infinity an
// infinity of the same sign (a reference that overflows the result's dtype counts as one); such
// pairs are left out of the numbers. Relative L2 is |found - expected| / |expected|, or |found -
// expected| where the reference is all zeros. max_rel is over the elements with a reference other
// than 0.
struct Comparison {
  std::string name;
  int64_t elements = 0;
  double max_abs = 0, max_rel = 0, rel_l2 = 0;
  int64_t misplaced = 0;  // elements of which only one is NaN or infinite
  // The element with the largest error, the first misplaced one if there is any.
  std::vector<int64_t> worst_index;
  double worst_found = 0, worst_expected = 0;
  Tolerance tolerance;
  // How far the reference itself moves, as a relative L2, where its results are rounded another
  // way, and how many elements it moves so far that they cannot be judged (conditioning.h); 0 if
  // that was not asked.
  double moves = 0;
  int64_t unjudged = 0;
  std::string note;  // what is unusual, or why it failed if the numbers do not show it
  bool pass = false;
};
std::string IndexText(ArrayRef<int64_t> index);  // "[3, 17]"

// Shapes that differ in dims of size 1 only are compared by position, with a note.
Comparison Compare(const std::string& name, const TensorData& found,
                   const ReferenceTensor& expected, const Tolerance& tolerance);

}  // namespace fusec
