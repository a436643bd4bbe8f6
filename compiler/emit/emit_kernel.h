#pragma once

#include <string>
#include <string_view>

#include "compiler/kernel/kernel_plan.h"
#include "compiler/support/adt.h"

namespace fusec {

// The model of a kernel, for its header comment.
struct ModelTitle {
  std::string file, opset;
};

// A kernel as a self-contained CUDA file: the header comment, device functions and the kernel.
std::string EmitKernelFile(const KernelPlan& plan, const ModelTitle& title);
// The kernel alone, without its header comment.
std::string EmitKernelCode(const KernelPlan& plan);
// All kernels of a program in one text, for one module; device functions appear once.
std::string EmitGpuModule(ArrayRef<const KernelPlan*> plans, const ModelTitle& title);
// The kernels that the runtime launches itself (runtime/transfer.cu), for the first module.
std::string_view EmitRuntimeKernels();
// The kernels of fusec_update_rows, for a module of their own, including the kernels that change
// row caches if the program has caches.
std::string EmitRowKernels(bool has_caches);
// The source of the CPU library: the host header, device functions (once), kernels, and a launcher
// `NAME_blocks` per kernel (runtime/ARTIFACT.md).
std::string EmitCpuLibrary(ArrayRef<const KernelPlan*> plans, const ModelTitle& title);

}  // namespace fusec
