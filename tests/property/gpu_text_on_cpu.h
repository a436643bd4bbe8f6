#pragma once

#include <string>

#include "compiler/plan/program_plan.h"
#include "compiler/support/adt.h"

namespace fusec {

// A CPU library of kernels that were planned for a GPU: the text that NVRTC would compile, with fibers for threads
// (gpu_threads.h). Slow, for tests only.
std::string GpuTextOnCpu(ArrayRef<const KernelPlan*> kernels);

}  // namespace fusec
