#pragma once

#include <vector>

#include "compiler/plan/matmul/ranges.h"

namespace fusec {

// In ascending order of rows, without gaps from the fewest rows that `rows` allow to the most.
// Empty where neither the library (unless `library` allows it) nor a kernel of ours makes it.
MatMulRanges ChooseMatMulSchedules(const MatMulPlan& matmul, const PlanOptions& options,
                                   const Ranges& symbols, bool library);

// The kernels on tensor cores or for few rows that can make `rows` rows of the product on a GPU;
// none where its operands lie in another way than these expect.
std::vector<MatMulSchedule> MatMulCandidates(const MatMulPlan& matmul, int64_t rows,
                                             const PlanOptions& options);

}  // namespace fusec
