#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"
#include "compiler/reference/reference_context.h"
#include "compiler/support/adt.h"

namespace fusec {

// How far a tensor may differ from its reference, and why. `fusec verify` prints the reason.
struct Tolerance {
  double relative_l2 = 0;
  std::string reason;  // "f32 sums in another order"
};
// The tolerance for a result of `dtype` compared with the interpreter's doubles. `matmul_precision`
// is the artifact's --matmul-precision.
Tolerance ToleranceOf(Dtype dtype, const std::string& matmul_precision);
// The coarsest float dtype to which `output`, or anything it was computed from, is rounded: an f32
// result of f16 layers is no more precise than f16. If `output` is not a float, its own dtype.
Dtype CoarsestDtype(const Value* output);

// The comparison of a result with its reference. A NaN must match a NaN, and an infinity an
// infinity of the same sign (a reference that overflows the result's dtype counts as infinite);
// such pairs are excluded from the error measures. Relative L2 is |found - expected| / |expected|,
// or |found - expected| if the reference is all zeros. max_rel only covers elements with a nonzero
// reference.
struct Comparison {
  std::string name;
  int64_t elements = 0;
  double max_abs = 0, max_rel = 0, rel_l2 = 0;
  int64_t misplaced = 0;  // elements that are NaN or infinite on one side only
  // The element with the largest error, or the first misplaced element if there is one.
  std::vector<int64_t> worst_index;
  double worst_found = 0, worst_expected = 0;
  Tolerance tolerance;
  // moves: how far the reference itself moves, as a relative L2, when its results are rounded
  // differently. unjudged: the number of elements that move too far to be judged (conditioning.h).
  // Both are 0 if this was not tested.
  double moves = 0;
  int64_t unjudged = 0;
  std::string note;  // anything unusual, or a reason of failure that the numbers do not show
  bool pass = false;
};
std::string IndexText(ArrayRef<int64_t> index);  // "[3, 17]"

// Shapes that differ only in dims of size 1 are compared by position, with a note.
Comparison Compare(const std::string& name, const TensorData& found,
                   const ReferenceTensor& expected, const Tolerance& tolerance);

}  // namespace fusec
