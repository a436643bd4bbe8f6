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

// The operations of a run, with all addresses and sizes. The names live as long as the manifest.

struct KernelOperation {
  std::string_view name;
  CUfunction function = nullptr;
  int cluster_blocks = 0;  // blocks of a cluster, see CudaFunction
  unsigned blocks = 1, block_size = 1, shared_bytes = 0;
  bool dependent_launch = false;    // begins by waiting for earlier kernels
  std::vector<uint64_t> arguments;  // words: an address, an i64, or an i32 in the low half
  std::vector<size_t>
      starts;  // where each argument begins; a struct of addresses has several words

  bool operator==(const KernelOperation&) const = default;
  // The form in which the driver takes arguments: pointers into `arguments`.
  std::vector<void*> ArgumentPointers() const;
};

// A copy to the GPU: of inputs from the host, or of an input to the output that lies in its memory
// if the caller did not bind one memory to both. Host memory is page-locked; the GPU and the host
// share one address space.
struct CopyOperation {
  CUdeviceptr to = 0, from = 0;
  size_t bytes = 0;
  bool from_host = true;
  bool operator==(const CopyOperation&) const = default;
};

// A product of cuBLASLt, whose kernels are its own.
struct MatmulOperation {
  std::string_view name;
  MatmulPlan plan;
  MatmulPointers pointers;
  std::shared_ptr<const CudaGraph> captured;  // its kernels, only if it becomes part of a graph
  bool operator==(const MatmulOperation& other) const {
    return name == other.name && plan.problem == other.plan.problem && pointers == other.pointers;
  }
};

using Operation = std::variant<CopyOperation, KernelOperation, MatmulOperation>;

// The purpose of an operation in errors: "kernel k03_bias_relu", the name of a product, "the
// inputs".
std::string Purpose(const Operation& operation);

// The environment in which operations run.
struct OperationEnvironment {
  const CudaContext* context = nullptr;
  CublasLt* cublaslt = nullptr;  // null if the program has no matmul step
  CUdeviceptr workspace = 0;     // CublasLt::kWorkspaceBytes bytes; 0 if there is no matmul step
  CUstream capture_stream = nullptr;
};

// Enqueues one operation.
Status Enqueue(const OperationEnvironment& environment, const Operation& operation,
               CUstream stream);

// Captures the product as a graph, on the environment's capture stream, which must be idle.
StatusOr<std::shared_ptr<const CudaGraph>> CaptureMatmul(const OperationEnvironment& environment,
                                                         const MatmulOperation& matmul);

}  // namespace fusec::runtime
