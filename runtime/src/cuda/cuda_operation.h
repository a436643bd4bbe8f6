#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/src/cuda/cublaslt.h"
#include "runtime/src/cuda/cuda_context.h"

namespace fusec::runtime {

// What a run consists of, with every address and size known. The names live as long as the
// manifest.

struct KernelOperation {
  std::string_view name;
  CUfunction function = nullptr;
  int cluster_blocks = 0;  // of the function, see CudaFunction
  unsigned blocks = 1, block_size = 1, shared_bytes = 0;
  bool dependent_launch = false;    // begins by waiting for earlier kernels
  std::vector<uint64_t> arguments;  // words: an address, an i64, or an i32 in the low half
  std::vector<size_t>
      starts;  // where each argument begins; a struct of addresses has several words

  bool operator==(const KernelOperation&) const = default;
  // The form in which the driver takes arguments: pointers into `arguments`.
  std::vector<void*> ArgumentPointers() const;
};

// To the GPU.
struct CopyOperation {
  CUdeviceptr device = 0;
  const void* host = nullptr;  // page-locked
  size_t bytes = 0;
  bool operator==(const CopyOperation&) const = default;
};

// A product of cuBLASLt, whose kernels are its own.
struct MatmulOperation {
  std::string_view name;
  MatmulPlan plan;
  MatmulPointers pointers;
  std::shared_ptr<const CudaGraph> captured;  // its kernels, for a graph of operations only
  bool operator==(const MatmulOperation& other) const {
    return name == other.name && plan.problem == other.plan.problem && pointers == other.pointers;
  }
};

using Operation = std::variant<CopyOperation, KernelOperation, MatmulOperation>;

// For an error: "kernel k03_bias_relu", the name of a product, "the inputs".
std::string Purpose(const Operation& operation);

// What operations run with, apart from their own addresses.
struct OperationEnvironment {
  const CudaContext* context = nullptr;
  CublasLt* cublaslt = nullptr;  // null if the program has no matmul step
  CUdeviceptr workspace = 0;     // of CublasLt::kWorkspaceBytes, or 0 likewise
  CUstream capture_stream = nullptr;
};

// Enqueues one operation.
Status Enqueue(const OperationEnvironment& environment, const Operation& operation,
               CUstream stream);

// Captures the product from the environment's capture stream, on which nothing may be running.
StatusOr<std::shared_ptr<const CudaGraph>> CaptureMatmul(const OperationEnvironment& environment,
                                                         const MatmulOperation& matmul);

}  // namespace fusec::runtime
