#pragma once

#include <vector>

#include "compiler/plan/matmul/ranges.h"

namespace fusec {

// The schedules of a product for all numbers of rows that `symbols` allow, in ascending order and
// without gaps. `library` says whether the library may be used. Empty if neither the library nor a
// generated kernel can compute the product.
MatMulRanges ChooseMatMulSchedules(const MatMulPlan& matmul, const PlanOptions& options,
                                   const Ranges& symbols, bool library);

// The same for a CPU: the library, and for few rows of weights that the kernel can compute, such a
// kernel.
MatMulRanges ChooseProductsOfCpu(const MatMulPlan& matmul, const Ranges& symbols);

// The schedules, on tensor cores or for few rows, that can compute `rows` rows of the product on a
// GPU; empty if these kernels do not support the layout of its operands.
std::vector<MatMulSchedule> MatMulCandidates(const MatMulPlan& matmul, int64_t rows,
                                             const PlanOptions& options);

}  // namespace fusec
