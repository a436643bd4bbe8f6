#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/src/cublaslt.h"
#include "runtime/src/cuda_context.h"

namespace fusec::runtime {

// What a run consists of, with every address and size known. The names live as long as the
// manifest.

struct KernelOperation {
  std::string_view name;
  CUfunction function = nullptr;
  unsigned blocks = 1, block_size = 1, shared_bytes = 0;
  std::vector<uint64_t> arguments;  // words: an address, an i64, or an i32 in the low half
  std::vector<size_t> starts;       // where each argument begins; a struct of addresses has several words

  bool operator==(const KernelOperation&) const = default;
  // The form in which the driver takes arguments: pointers into `arguments`.
  std::vector<void*> ArgumentPointers() const;
};

struct CopyOperation {
  CUdeviceptr device = 0;
  void* host = nullptr;  // page-locked
  size_t bytes = 0;
  bool to_device = true;
  bool operator==(const CopyOperation&) const = default;
};

struct MatmulOperation {
  std::string_view name;
  MatmulPlan plan;
  MatmulPointers pointers;
  bool operator==(const MatmulOperation& other) const {
    return name == other.name && plan.problem == other.plan.problem && pointers == other.pointers;
  }
};

using Operation = std::variant<CopyOperation, KernelOperation, MatmulOperation>;

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

// A list of operations as one instantiated CUDA graph, each node after the one before it.
class OperationGraph {
 public:
  // The graph is built node by node; only the products of cuBLASLt, whose kernels are its own, are
  // captured from a stream and become child graphs. Nothing may be running on the environment's
  // capture stream.
  static StatusOr<OperationGraph> Build(const OperationEnvironment& environment,
                                        const std::vector<Operation>& operations);

  // Makes later launches run `after` instead of `before`, which it must run now. False, with
  // nothing changed, if that takes more than new grids and arguments for its kernels. An error
  // leaves it unusable.
  StatusOr<bool> Patch(const OperationEnvironment& environment,
                       const std::vector<Operation>& before, const std::vector<Operation>& after);

  Status Launch(const CudaContext& context, CUstream stream) const;

 private:
  CudaGraph graph_;  // kept, since its nodes name what Patch changes
  CudaGraphExec executable_;
  std::vector<CUgraphNode> nodes_;  // by operation
};

}  // namespace fusec::runtime
