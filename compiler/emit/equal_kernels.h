#pragma once

#include "compiler/plan/program_plan.h"

namespace fusec {

// Layers that are alike have kernels that differ in names alone. Of such kernels the first is
// compiled, and the others launch its function with their own arguments (KernelPlan::same_as).
void ShareEqualKernels(ProgramPlan& program);

// The kernels whose functions a program launches, each once.
std::vector<const KernelPlan*> FunctionsOf(const ProgramPlan& program);

}  // namespace fusec
