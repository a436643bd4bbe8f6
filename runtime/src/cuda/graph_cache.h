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

// Operations made ready to launch, and what the executor must know to launch them again.
struct PreparedRun {
  std::vector<uint64_t> key;
  bool is_current = false;  // whether the operations are those for the key
  OperationGraph graph;
  std::vector<Operation> operations;  // instead of a graph, with FUSEC_CUDA_GRAPH=0
  bool is_empty = false;              // nothing to launch
  StagingLayout layout;
  bool signals_end = false;  // the last node is end_run

  Status Launch(const OperationEnvironment& environment, CUstream stream) const;
};

// Memory of the GPU that no caller sees.
struct MemoryRange {
  CUdeviceptr begin = 0;
  size_t bytes = 0;
};

// Recently used runs, ready to launch, by a key that names all that their operations depend on:
// values of the dims, places of tensors, and the addresses that callers chose.
//
// Where the same steps run for other dims, with another kernel among alternatives too, or for other
// addresses, the executable of their graph that was used longest ago gets new parameters; there are
// several, so that going back to recent dims or addresses costs a look-up. A graph is built where
// what runs has another shape (see OperationGraph): a product of the library of other sizes or
// addresses, a copy between other places, or an empty tensor. Those are kept too, the last 64
// executables in all. With FUSEC_CUDA_GRAPH=0 there are lists of operations instead of graphs,
// which Launch enqueues one by one and waits for each, so that an error names its kernel.
//
// It owns the graphs and their executables. The one at the front of its list was used last. Before
// it drops an executable, and before it tries a product in memory of runs, it calls
// `finish_earlier`, which must wait for whatever is running. One thread uses it at a time, with the
// context current. Errors are those of the driver and of cuBLASLt; a run that could not be made is
// not kept, and the others stay good. Find allocates nothing.
class GraphCache {
 public:
  // Executables of one graph, which is how many sets of dims and addresses can go round without new
  // parameters.
  static constexpr size_t kExecutables = 8;

  GraphCache(bool use_graphs, const OperationEnvironment& environment,
             std::function<void()> finish_earlier)
      : use_graphs_(use_graphs),
        environment_(environment),
        finish_earlier_(std::move(finish_earlier)) {}

  // The run of that key, or null. It stays where it is until the next Make or ForgetAddresses.
  const PreparedRun* Find(const std::vector<uint64_t>& key);
  // A run of the operations for a key that Find did not find. Products may be tried in `own`,
  // memory that nothing but runs of this cache uses. The caller fills in the layout and
  // signals_end.
  StatusOr<PreparedRun*> Make(const std::vector<uint64_t>& key, std::vector<Operation> operations,
                              std::span<const MemoryRange> own);
  // A graph of the operations that is not kept.
  StatusOr<OperationGraph> Build(std::vector<Operation> operations,
                                 std::span<const MemoryRange> own);
  // Memory of runs is about to be freed, so no key is right any more. Nothing may be running.
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
  std::list<PreparedRun> runs_;  // used last first
  std::set<MatmulProblem> warmed_up_;
};

}  // namespace fusec::runtime
