#pragma once

#include <string>
#include <string_view>

#include "compiler/kernel/kernel_plan.h"
#include "compiler/support/adt.h"

namespace fusec {

// What the header comment of every kernel says about the model it came from.
struct ModelTitle {
  std::string file, opset;
};

// A kernel as a self-contained CUDA file: header comment, device functions, the kernel.
std::string EmitKernelFile(const KernelPlan& plan, const ModelTitle& title);
// The kernel alone, without its header comment.
std::string EmitKernelCode(const KernelPlan& plan);
// All kernels of a program in one text for one module; device functions once.
std::string EmitGpuModule(ArrayRef<const KernelPlan*> plans, const ModelTitle& title);
// The kernels that the runtime launches itself, for the first module.
std::string_view EmitRuntimeKernels();
// Those of fusec_update_rows, a module of their own, with those that change caches of rows where
// the program has any.
std::string EmitRowKernels(bool has_caches);
// The CPU library: host header, device functions once, kernels, and a launcher `NAME_blocks` per
// kernel (runtime/ARTIFACT.md).
std::string EmitCpuLibrary(ArrayRef<const KernelPlan*> plans, const ModelTitle& title);

}  // namespace fusec
