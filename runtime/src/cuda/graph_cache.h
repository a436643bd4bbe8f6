#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <set>
#include <span>
#include <vector>

#include "runtime/src/cuda/cuda_device.h"
#include "runtime/src/cuda/cuda_operation.h"
#include "runtime/src/cuda/operation_graph.h"
#include "runtime/src/cuda/tensor_places.h"

namespace fusec::runtime {

// Operations that are ready to launch, and what the executor needs to launch them again.
struct PreparedRun {
  std::vector<uint64_t> key;
  bool is_current = false;  // whether the operations belong to the key
  OperationGraph graph;
  std::vector<Operation> operations;  // instead of a graph, with FUSEC_CUDA_GRAPH=0
  bool is_empty = false;              // nothing to launch
  StagingLayout layout;
  bool signals_end = false;  // the last node is end_run

  Status Launch(const OperationEnvironment& environment, CUstream stream) const;
};

// GPU memory that callers cannot access.
struct MemoryRange {
  CUdeviceptr begin = 0;
  size_t bytes = 0;
};

// Recently used runs that are ready to launch, by a key of everything on which their operations
// depend: values of the dims, places of tensors, and the addresses that callers chose.
//
// If the same steps run for other dims (also with another kernel among alternatives) or for other
// addresses, the least recently used executable of their graph gets new parameters. There are
// several executables, so that returning to recent dims or addresses costs only a look-up. A new
// graph is built if the operations have another shape (see OperationGraph): a library product of
// other sizes or addresses, a copy between other places, or an empty tensor. At most 64 executables
// are kept in total. With FUSEC_CUDA_GRAPH=0 there are lists of operations instead of graphs;
// Launch enqueues the operations one by one and waits for each, so that an error names its kernel.
//
// The cache owns the graphs and their executables. The front of its list is the most recently used
// one. Before it drops an executable, and before it runs a product in memory of runs to warm it up,
// it calls `finish_earlier`, which must wait for all running work. One thread uses it at a time,
// with the context current. Errors are those of the driver and of cuBLASLt; a run that could not be
// built is not kept, and the others stay valid. Find allocates no memory.
class GraphCache {
 public:
  // The number of executables of one graph: so many combinations of dims and addresses can
  // alternate without new parameters.
  static constexpr size_t kExecutables = 8;

  GraphCache(bool use_graphs, const OperationEnvironment& environment,
             std::function<void()> finish_earlier)
      : use_graphs_(use_graphs),
        environment_(environment),
        finish_earlier_(std::move(finish_earlier)) {}

  // The run for a key, or null. The pointer is valid until the next Make or ForgetAddresses.
  const PreparedRun* Find(const std::vector<uint64_t>& key);
  // Makes a run of the operations for a key that Find did not find. Products may be warmed up in
  // `own`, memory that only runs of this cache use. The caller sets `layout` and `signals_end`.
  StatusOr<PreparedRun*> Make(const std::vector<uint64_t>& key, std::vector<Operation> operations,
                              std::span<const MemoryRange> own);
  // Builds a graph of the operations without keeping it.
  StatusOr<OperationGraph> Build(std::vector<Operation> operations,
                                 std::span<const MemoryRange> own);
  // Called before memory of runs is freed: all keys become invalid. Nothing may be running.
  void ForgetAddresses();

  const OperationEnvironment& environment() const { return environment_; }

 private:
  static constexpr size_t kMaxExecutables = 64;  // of all graphs together

  Status PrepareGraph(std::vector<Operation> operations, std::span<const MemoryRange> own);
  void MakeRoom(size_t count);
  Status Capture(std::vector<Operation>& operations, std::span<const MemoryRange> own);
  Status WarmUp(const MatmulOperation& matmul, std::span<const MemoryRange> own);

  const bool use_graphs_;
  const OperationEnvironment environment_;
  const std::function<void()> finish_earlier_;
  std::list<PreparedRun> runs_;  // most recently used first
  std::set<MatmulProblem> warmed_up_;
};

}  // namespace fusec::runtime
