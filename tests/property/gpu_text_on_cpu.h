#pragma once

#include <string>
#include <vector>

#include "compiler/plan/program_plan.h"

namespace fusec {

// A CPU library of kernels that were planned for a GPU: the text that NVRTC would compile, with fibers for threads
// (gpu_threads.h). Slow, for tests only.
std::string GpuTextOnCpu(const std::vector<const KernelPlan*>& kernels);

}  // namespace fusec
