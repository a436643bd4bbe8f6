#pragma once

#include <string>

#include "compiler/plan/program_plan.h"
#include "compiler/support/adt.h"

namespace fusec {

// Which parts of the text run: those for tensor cores, asynchronous copies and clusters, as on an sm_90a, or their replacements for a CPU,
// which are several times as fast.
enum class TextParts { kOfSm90a, kOfCpu };
// The path of a CPU library of kernels that were planned for an sm_90a: the text that NVRTC would compile, run by the emulated GPU
// (tests/emulation). Slow, for tests only.
std::string GpuTextOnCpu(ArrayRef<const KernelPlan*> kernels, TextParts parts);

// While an object exists, GpuTextOnCpu replaces each occurrence of a piece of its text by another text: a fault, which tests must find.
class TextFault {
 public:
  TextFault(const std::string& right, const std::string& wrong);
  ~TextFault();
  TextFault(const TextFault&) = delete;
  TextFault& operator=(const TextFault&) = delete;
  // Whether a text that was written since contained the piece.
  bool was_written() const;
};

}  // namespace fusec
