#pragma once

#include <string>

#include "compiler/plan/program_plan.h"
#include "compiler/support/adt.h"

namespace fusec {

// A CPU library of kernels that were planned for an sm_90a: the text that NVRTC would compile, run by the emulation of a GPU
// (tests/emulation). Slow, for tests only.
std::string GpuTextOnCpu(ArrayRef<const KernelPlan*> kernels);

// While it exists, GpuTextOnCpu writes something else for a piece of its text: a fault, which tests must find.
class TextFault {
 public:
  TextFault(const std::string& right, const std::string& wrong);
  ~TextFault();
  TextFault(const TextFault&) = delete;
  TextFault& operator=(const TextFault&) = delete;
  // Whether a text since had the piece.
  bool was_written() const;
};

}  // namespace fusec
