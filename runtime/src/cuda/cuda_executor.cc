#include "runtime/src/cuda/cuda_executor.h"

#include <algorithm>
#include <utility>

namespace fusec::runtime {

StatusOr<std::unique_ptr<CudaExecutor>> CudaExecutor::Create(CudaDevice& device) {
  FUSEC_RT_TRY(device.context().Usable());
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(device));
  FUSEC_RT_TRY(executor->Initialize());
  return executor;
}

Status CudaExecutor::Initialize() {
  ScopedContext scope(context_);
  FUSEC_RT_ASSIGN(stream_, CreateStream(context_));
  FUSEC_RT_ASSIGN(done_, CreateEvent(context_, false));
  if (device_.cublaslt() != nullptr) {
    FUSEC_RT_ASSIGN(workspace_, AllocateDevice(context_, CublasLt::kWorkspaceBytes,
                                               "the workspace of cuBLASLt"));
  }
  const Target& target = device_.target();
  for (const TensorSignature& output : device_.manifest().outputs) {
    const auto has = [&](const std::vector<int>& buffers) {
      return std::find(buffers.begin(), buffers.end(), output.buffer) != buffers.end();
    };
    only_stored_to_.push_back(
        std::none_of(target.steps.begin(), target.steps.end(), [&](const Step& step) {
          const bool on_device =
              step.kind == Step::Kind::kMatmul || step.kernel.outputs_in_device_memory;
          return has(step.inputs) || (has(step.outputs) && on_device);
        }));
  }
  // In host memory, so that neither clearing it nor fetching it costs a node of the graph (1 to 2
  // us each); kernels touch it only when they meet a bad index.
  FUSEC_RT_ASSIGN(reports_, AllocatePinned(context_, sizeof(Reports), "the index error"));
  reports() = Reports();
  return FUSEC_CUDA(context_, "the index error", cuMemHostGetDevicePointer, &reports_address_,
                    reports_.get(), 0);
}

CudaExecutor::~CudaExecutor() {
  // What is still running uses the memory that goes away now. Its errors have nobody left to hear
  // them.
  if (!running_) return;
  ScopedContext scope(context_);
  static_cast<void>(Finish());
}

OperationEnvironment CudaExecutor::Environment() const {
  return {&context_, device_.cublaslt(), workspace_.get(), stream_.get()};
}

StatusOr<const CudaExecutor::Prepared*> CudaExecutor::Prepare(const RunBindings& bindings,
                                                              bool is_awaited) {
  MakeKey(bindings, is_awaited);
  for (auto entry = prepared_.begin(); entry != prepared_.end(); ++entry) {
    if (!entry->is_current || entry->key != key_) continue;
    prepared_.splice(prepared_.begin(), prepared_, entry);
    return &prepared_.front();
  }
  FUSEC_RT_ASSIGN(Addresses addresses, Locate(bindings));
  FUSEC_RT_ASSIGN(std::vector<Operation> operations, Resolve(bindings, addresses));
  const bool is_empty = operations.empty();
  if (device_.use_graphs() && !is_empty) {
    FUSEC_RT_TRY(PrepareGraph(std::move(operations)));
  } else {
    MakeRoom(1);
    prepared_.emplace_front().operations = std::move(operations);
  }
  Prepared& made = prepared_.front();
  made.staging = std::move(addresses.staging);
  made.is_empty = is_empty;
  made.signals_end = signals_end_ && !is_empty;
  made.key = key_;
  made.is_current = true;
  return &made;
}

void CudaExecutor::MakeRoom(size_t count) {
  if (prepared_.size() + count <= kMaxExecutables) return;
  FinishEarlier();  // what is dropped may be running
  while (prepared_.size() + count > kMaxExecutables) prepared_.pop_back();
}

// Makes the front of `prepared_` one that runs the operations: the one of their shape that was used
// longest ago, or one of a new graph.
Status CudaExecutor::PrepareGraph(std::vector<Operation> operations) {
  for (auto entry = prepared_.end(); entry != prepared_.begin();) {
    --entry;
    if (!entry->graph.Fits(operations)) continue;
    entry->is_current = false;
    const StatusOr<bool> updated = entry->graph.Update(Environment(), operations);
    if (updated && *updated) {
      prepared_.splice(prepared_.begin(), prepared_, entry);
      return {};
    }
    FinishEarlier();  // it may be running
    prepared_.erase(entry);
    if (!updated) return tl::unexpected(updated.error());
    break;
  }
  const bool has_product = std::any_of(operations.begin(), operations.end(), [](const auto& one) {
    return std::holds_alternative<MatmulOperation>(one);
  });
  const size_t count = has_product ? 1 : kExecutables;  // other products need another graph anyway
  MakeRoom(count);
  FUSEC_RT_TRY(Capture(operations));
  FUSEC_RT_ASSIGN(std::vector<OperationGraph> graphs,
                  OperationGraph::Build(Environment(), std::move(operations), count));
  for (OperationGraph& graph : graphs) prepared_.emplace_front().graph = std::move(graph);
  return {};
}

Status CudaExecutor::Launch(const Prepared& prepared, CUstream stream) {
  if (prepared.is_empty) return {};
  if (device_.use_graphs()) return prepared.graph.Launch(context_, stream);
  for (const Operation& operation : prepared.operations) {
    FUSEC_RT_TRY(Enqueue(Environment(), operation, stream));
    FUSEC_RT_TRY(FUSEC_CUDA(context_, Purpose(operation), cuStreamSynchronize, stream));
  }
  return {};
}

Status CudaExecutor::Start(const RunBindings& bindings, CUstream stream, bool is_awaited) {
  const bool other_dims = !std::equal(bindings.symbols.begin(), bindings.symbols.end(),
                                      running_symbols_.begin(), running_symbols_.end());
  if (running_ && other_dims)
    FinishEarlier();  // an index error is explained with the dims of its run
  FUSEC_RT_ASSIGN(const Prepared* prepared, Prepare(bindings, is_awaited));
  // Staging may still be in use, or hold results that nobody has fetched.
  if (uses_staging_ || !running_outputs_.empty()) FinishEarlier();
  if (prepared->signals_end) reports().has_ended = 0;  // no run that would set it is under way
  const Status enqueued = EnqueueRun(*prepared, bindings, stream);
  if (!enqueued) {
    // Whoever hears of an error may free the memory that copies already enqueued would use.
    static_cast<void>(context_.driver().cuStreamSynchronize(stream));
    running_outputs_.clear();
    return enqueued;
  }
  running_ = true;
  running_signals_end_ = prepared->signals_end;
  running_stream_ = stream;
  running_symbols_.assign(bindings.symbols.begin(), bindings.symbols.end());
  return {};
}

Status CudaExecutor::EnqueueRun(const Prepared& prepared, const RunBindings& bindings,
                                CUstream stream) {
  const auto record_done = [this](CUstream recorded) {
    return FUSEC_CUDA(context_, {}, cuEventRecord, done_.get(), recorded);
  };
  if (running_ && running_stream_ != stream) {
    if (running_stream_ == stream_.get()) FUSEC_RT_TRY(record_done(running_stream_));
    FUSEC_RT_TRY(
        FUSEC_CUDA(context_, {}, cuStreamWaitEvent, stream, done_.get(), CU_EVENT_WAIT_DEFAULT));
  }
  FUSEC_RT_TRY(SendInputs(bindings, prepared.staging, stream));
  FUSEC_RT_TRY(Launch(prepared, stream));
  FUSEC_RT_TRY(FetchOutputs(bindings, prepared.staging, stream));
  // A stream of the caller may be gone when the run is waited for; the own one can be asked then.
  return stream == stream_.get() ? Status() : record_done(stream);
}

Status CudaExecutor::Finish() {
  running_ = false;
  const Status waited = Wait();
  running_outputs_.clear();
  if (!waited) {
    return Fail(
        waited.error().code, waited.error().message,
        device_.use_graphs() ? "; FUSEC_CUDA_GRAPH=0 runs step by step and names the kernel" : "");
  }
  return CheckErrors();
}

void CudaExecutor::FinishEarlier() {
  if (!running_) return;
  ScopedContext scope(context_);
  Status finished = Finish();
  if (!finished && delayed_error_) delayed_error_ = std::move(finished);
}

Status CudaExecutor::CheckErrors() {
  IndexError& shared = reports().error;
  const int32_t site = *static_cast<volatile const int32_t*>(&shared.site);  // written by the GPU
  if (site == 0) return {};
  const IndexError found = std::exchange(shared, IndexError());
  return CheckIndexError(device_.manifest(), running_symbols_, found);
}

Status CudaExecutor::Run(const RunBindings& bindings) {
  FUSEC_RT_TRY(context_.Usable());
  ScopedContext scope(context_);
  FinishEarlier();
  FUSEC_RT_TRY(Start(bindings, stream_.get(), true));
  return Finish();
}

Status CudaExecutor::RunAsync(const RunBindings& bindings, void* stream) {
  FUSEC_RT_TRY(context_.Usable());
  ScopedContext scope(context_);
  return Start(bindings, static_cast<CUstream>(stream), false);
}

Status CudaExecutor::Synchronize() {
  Status finished;
  if (running_) {
    ScopedContext scope(context_);
    finished = Finish();
  }
  Status delayed = std::exchange(delayed_error_, Status());
  return delayed ? finished : delayed;
}

StatusOr<std::vector<double>> CudaExecutor::MeasureRuns(const RunBindings& bindings, int count) {
  constexpr int kReplays = 20;
  return Measure({&bindings, 1}, count, kReplays);
}

}  // namespace fusec::runtime
