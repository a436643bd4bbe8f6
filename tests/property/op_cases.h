#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/reference/reference_context.h"

namespace fusec {

// One op with difficult inputs: NaN, infinities, -0, limits of integers, sizes 0 and 1, negative and repeated indices.
struct OpCase {
  std::unique_ptr<Graph> graph;
  std::vector<ReferenceTensor> Inputs(int64_t batch) const;
  // By input: 0: numbers of every kind; n > 0: indices into n elements; kTame: numbers of about 1, whose sums are exact; kSmall: floats up
  // to 1/2; UpTo(n): integers from 0 to n; Slots(n): integers from -1 to n - 1.
  std::vector<int64_t> fills;
};

// Every op with operands of `dtype`, with the shapes and attributes that the .cc lists; cases that Infer rejects are left out.
std::vector<OpCase> PointwiseCases(Dtype dtype);
std::vector<OpCase> StructuralCases(Dtype dtype);  // views, gathers, reductions, matmuls, composites, scans
std::vector<OpCase> RecurrenceCases(Dtype dtype);  // for floats only

}  // namespace fusec
