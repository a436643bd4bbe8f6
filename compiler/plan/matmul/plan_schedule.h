#pragma once

#include "compiler/kernel/kernel_builder.h"
#include "compiler/plan/matmul/schedule.h"

namespace fusec {

// Plans a region that consists of the product `matmul`, its prologue and its epilogue according to
// `schedule`, and stores the result in `step`: a kernel written with `builder`, or a library call
// with the name of that kernel.
void PlanMatMulStep(const Node& region, const MatMulPlan& matmul, const MatMulSchedule& schedule,
                    const PlanOptions& options, KernelBuilder& builder, Step& step);

}  // namespace fusec
