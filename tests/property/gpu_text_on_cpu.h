#pragma once

#include <string>

#include "compiler/plan/program_plan.h"
#include "compiler/support/adt.h"

namespace fusec {

// Which parts of the text run: those of tensor cores, asynchronous copies and clusters, as on an sm_90a, or what the text has in their
// place for a CPU, which is several times as fast.
enum class TextParts { kOfSm90a, kOfCpu };
// A CPU library of kernels that were planned for an sm_90a: the text that NVRTC would compile, run by the emulation of a GPU
// (tests/emulation). Slow, for tests only.
std::string GpuTextOnCpu(ArrayRef<const KernelPlan*> kernels, TextParts parts);

// While it exists, GpuTextOnCpu writes something else for a piece of its text, wherever that stands: a fault, which tests must find.
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
