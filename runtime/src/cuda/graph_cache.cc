#include "runtime/src/cuda/graph_cache.h"

#include <algorithm>
#include <utility>

#include "runtime/src/artifact/dtype.h"

namespace fusec::runtime {

Status PreparedRun::Launch(const OperationEnvironment& environment, CUstream stream) const {
  if (is_empty) return {};
  if (operations.empty()) return graph.Launch(*environment.context, stream);
  for (const Operation& operation : operations) {
    FUSEC_RT_TRY(Enqueue(environment, operation, stream));
    FUSEC_RT_TRY(FUSEC_CUDA(*environment.context, Purpose(operation), cuStreamSynchronize, stream));
  }
  return {};
}

const PreparedRun* GraphCache::Find(const std::vector<uint64_t>& key) {
  for (auto run = runs_.begin(); run != runs_.end(); ++run) {
    if (!run->is_current || run->key != key) continue;
    runs_.splice(runs_.begin(), runs_, run);
    return &runs_.front();
  }
  return nullptr;
}

StatusOr<PreparedRun*> GraphCache::Make(const std::vector<uint64_t>& key,
                                        std::vector<Operation> operations,
                                        std::span<const MemoryRange> own) {
  const bool is_empty = operations.empty();
  if (use_graphs_ && !is_empty) {
    FUSEC_RT_TRY(PrepareGraph(std::move(operations), own));
  } else {
    MakeRoom(1);
    runs_.emplace_front().operations = std::move(operations);
  }
  PreparedRun& made = runs_.front();
  made.is_empty = is_empty;
  made.key = key;
  made.is_current = true;
  return &made;
}

void GraphCache::MakeRoom(size_t count) {
  if (runs_.size() + count <= kMaxExecutables) return;
  finish_earlier_();  // a dropped executable may be running
  while (runs_.size() + count > kMaxExecutables) runs_.pop_back();
}

// Makes the front of `runs_` a run of the operations: the least recently used executable of their
// shape with new parameters, or one of a new graph.
Status GraphCache::PrepareGraph(std::vector<Operation> operations,
                                std::span<const MemoryRange> own) {
  for (auto run = runs_.end(); run != runs_.begin();) {
    --run;
    if (!run->graph.Fits(operations)) continue;
    run->is_current = false;
    const StatusOr<bool> updated = run->graph.Update(environment_, operations);
    if (updated && *updated) {
      runs_.splice(runs_.begin(), runs_, run);
      return {};
    }
    finish_earlier_();  // it may be running
    runs_.erase(run);
    if (!updated) return tl::unexpected(updated.error());
    break;
  }
  const bool has_product = std::any_of(operations.begin(), operations.end(), [](const auto& one) {
    return std::holds_alternative<MatmulOperation>(one);
  });
  const size_t count = has_product ? 1 : kExecutables;  // another product needs another graph
  MakeRoom(count);
  FUSEC_RT_TRY(Capture(operations, own));
  FUSEC_RT_ASSIGN(std::vector<OperationGraph> graphs,
                  OperationGraph::Build(environment_, std::move(operations), count));
  for (OperationGraph& graph : graphs) runs_.emplace_front().graph = std::move(graph);
  return {};
}

StatusOr<OperationGraph> GraphCache::Build(std::vector<Operation> operations,
                                           std::span<const MemoryRange> own) {
  FUSEC_RT_TRY(Capture(operations, own));
  FUSEC_RT_ASSIGN(std::vector<OperationGraph> graphs,
                  OperationGraph::Build(environment_, std::move(operations), 1));
  return std::move(graphs[0]);
}

void GraphCache::ForgetAddresses() {
  // Other memory may get the old addresses.
  runs_.remove_if([](const PreparedRun& run) { return !run.graph.HasOnlyKernels(); });
  for (PreparedRun& run : runs_) run.is_current = false;
}

// Gives each product its captured kernels. All products run once before the first is captured.
Status GraphCache::Capture(std::vector<Operation>& operations, std::span<const MemoryRange> own) {
  std::vector<MatmulOperation*> products;
  for (Operation& operation : operations) {
    if (auto* matmul = std::get_if<MatmulOperation>(&operation)) products.push_back(matmul);
  }
  if (products.empty()) return {};
  finish_earlier_();  // products are warmed up in the arena
  FUSEC_RT_TRY(FUSEC_CUDA(*environment_.context, {}, cuStreamSynchronize,
                          environment_.capture_stream));  // to capture from
  for (const MatmulOperation* product : products) {
    if (warmed_up_.insert(product->plan.problem).second) FUSEC_RT_TRY(WarmUp(*product, own));
  }
  for (MatmulOperation* product : products) {
    FUSEC_RT_ASSIGN(product->captured, CaptureMatmul(environment_, *product));
  }
  return {};
}

// Runs a product once so that cuBLASLt loads its code, which it cannot do safely during a stream
// capture. The next run overwrites the result. Memory of the caller must not be written outside of
// a run, so scratch memory replaces it.
Status GraphCache::WarmUp(const MatmulOperation& matmul, std::span<const MemoryRange> own) {
  constexpr std::string_view kPurpose = "the first run of a matmul";
  const CudaContext& context = *environment_.context;
  MatmulOperation trial = matmul;
  DeviceMemory scratch;
  const bool is_own = std::any_of(own.begin(), own.end(), [&](const MemoryRange& range) {
    return trial.pointers.d >= range.begin && trial.pointers.d < range.begin + range.bytes;
  });
  if (!is_own) {
    const MatmulProblem& problem = trial.plan.problem;
    const int64_t elements = (problem.batch - 1) * problem.d_stride + problem.m * problem.n;
    const size_t bytes = static_cast<size_t>(elements * DtypeBytes(problem.dtype));
    FUSEC_RT_ASSIGN(scratch, AllocateDevice(context, bytes, kPurpose));
    trial.pointers.d = scratch.get();
  }
  FUSEC_RT_TRY(Enqueue(environment_, trial, environment_.capture_stream));
  return FUSEC_CUDA(context, kPurpose, cuStreamSynchronize, environment_.capture_stream);
}

}  // namespace fusec::runtime
