#pragma once

#include "compiler/plan/program_plan.h"

namespace fusec {

// Identical layers share one kernel. If kernels differ only in names, the first one is compiled,
// and the others launch its function with their own arguments (KernelPlan::same_as).
void ShareEqualKernels(ProgramPlan& program);

// The kernels whose functions a program launches, without duplicates.
std::vector<const KernelPlan*> FunctionsOf(const ProgramPlan& program);

}  // namespace fusec
