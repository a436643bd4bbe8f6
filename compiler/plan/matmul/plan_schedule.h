#pragma once

#include "compiler/kernel/kernel_builder.h"
#include "compiler/plan/matmul/schedule.h"

namespace fusec {

// Plans a region that is the product `matmul` with what stands around it, as `schedule` says: a
// kernel of `builder`, or a call of the library under the names of that kernel.
void PlanMatMulStep(const Node& region, const MatMulPlan& matmul, const MatMulSchedule& schedule,
                    const PlanOptions& options, KernelBuilder& builder, Step& step);

}  // namespace fusec
