#include "runtime/src/cuda/cuda_executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <utility>

#include "runtime/src/cuda/resolve_steps.h"

namespace fusec::runtime {
namespace {

Status CheckAligned(const TensorBinding& binding, const TensorSignature& tensor) {
  constexpr uintptr_t kVectorBytes = TensorPlaces::kVectorBytes;
  const uintptr_t address = reinterpret_cast<uintptr_t>(binding.data);
  if (!binding.on_device || address % kVectorBytes == 0) return {};
  return Fail(FUSEC_BAD_INPUT, "the device memory of \"", tensor.name, "\" starts ",
              address % kVectorBytes, " bytes after a multiple of ", kVectorBytes,
              ", expected a multiple of ", kVectorBytes);
}

}  // namespace

StatusOr<std::unique_ptr<CudaExecutor>> CudaExecutor::Create(CudaDevice& device) {
  FUSEC_RT_TRY(device.context().Usable());
  ScopedContext scope(device.context());
  FUSEC_RT_ASSIGN(Resources resources, Acquire(device));
  return std::unique_ptr<CudaExecutor>(new CudaExecutor(device, std::move(resources)));
}

StatusOr<CudaExecutor::Resources> CudaExecutor::Acquire(const CudaDevice& device) {
  const CudaContext& context = device.context();
  Resources resources;
  FUSEC_RT_ASSIGN(resources.stream, CreateStream(context));
  FUSEC_RT_ASSIGN(resources.done, CreateEvent(context, false));
  if (device.cublaslt() != nullptr) {
    FUSEC_RT_ASSIGN(resources.workspace, AllocateDevice(context, CublasLt::kWorkspaceBytes,
                                                        "the workspace of cuBLASLt"));
  }
  // The reports are in host memory, so that neither clearing nor reading them needs a node of the
  // graph (1 to 2 us each); kernels access the error only if they find a bad index.
  FUSEC_RT_ASSIGN(resources.reports, AllocatePinned(context, sizeof(Reports), "the index error"));
  *static_cast<Reports*>(resources.reports.get()) = Reports();
  FUSEC_RT_TRY(FUSEC_CUDA(context, "the index error", cuMemHostGetDevicePointer,
                          &resources.reports_address, resources.reports.get(), 0));
  return resources;
}

CudaExecutor::CudaExecutor(CudaDevice& device, Resources resources)
    : device_(device),
      context_(device.context()),
      own_(std::move(resources)),
      staging_(device),
      graphs_(device.use_graphs(),
              {&context_, device.cublaslt(), own_.workspace.get(), own_.stream.get()},
              [this] { FinishEarlier(); }),
      member_{own_.stream.get(), own_.done.get()},
      places_(device) {
  device_.weights_switch().Join(member_);
}

CudaExecutor::~CudaExecutor() {
  device_.weights_switch().Leave(member_);
  // Running work still uses the memory that is about to be freed. Its errors cannot be reported to
  // anyone.
  if (!running_) return;
  ScopedContext scope(context_);
  static_cast<void>(Finish());
}

// The key has everything on which the operations depend, except the memory that the executor owns:
// when that changes, prepared runs are invalidated.
void CudaExecutor::MakeKey(const RunBindings& bindings, bool is_awaited) {
  places_.Choose(bindings);
  signals_end_ = is_awaited && !places_.copies_behind_graph() && device_.use_graphs() &&
                 device_.kernels().of_runtime().end_run != nullptr;
  key_.assign(bindings.symbols.begin(), bindings.symbols.end());
  places_.AppendTo(key_, bindings);
  key_.push_back(signals_end_);
}

StatusOr<const PreparedRun*> CudaExecutor::Prepare(const RunBindings& bindings, bool is_awaited) {
  MakeKey(bindings, is_awaited);
  if (const PreparedRun* found = graphs_.Find(key_)) return found;
  FUSEC_RT_ASSIGN(ResolvedRun run, Resolve(bindings));
  FUSEC_RT_ASSIGN(PreparedRun * made, graphs_.Make(key_, std::move(run.operations), OwnMemory()));
  made->layout = std::move(run.layout);
  made->signals_end = signals_end_ && !made->is_empty;
  return made;
}

StatusOr<CudaExecutor::ResolvedRun> CudaExecutor::Resolve(const RunBindings& bindings) {
  ResolvedRun run{places_.LayOut(bindings), {}};
  FUSEC_RT_TRY(Reserve(static_cast<size_t>(bindings.arena->bytes), run.layout));
  FUSEC_RT_ASSIGN(const std::vector<CUdeviceptr> buffers, Locate(bindings, run.layout));
  staging_.AppendCopyOfInputs(bindings, run.layout, run.operations);
  for (const TensorSignature& output : device_.manifest().outputs) {
    const int input = device_.manifest().buffers[output.buffer].in_place_of;
    const auto bytes = static_cast<size_t>(bindings.buffer_bytes[output.buffer]);
    if (input < 0 || bytes == 0 || buffers[output.buffer] == buffers[input]) continue;
    run.operations.emplace_back(
        CopyOperation{buffers[output.buffer], buffers[input], bytes, false});
  }
  FUSEC_RT_TRY(AppendSteps(device_, bindings,
                           {buffers, own_.reports_address + offsetof(Reports, error)},
                           run.operations));
  if (!signals_end_ || run.operations.empty()) return run;
  KernelOperation end;
  end.name = "end_run";
  end.function = device_.kernels().of_runtime().end_run;
  end.dependent_launch = device_.launches_dependently();
  end.arguments = {own_.reports_address + offsetof(Reports, has_ended)};
  end.starts = {0};
  run.operations.emplace_back(std::move(end));
  return run;
}

Status CudaExecutor::Reserve(size_t arena_bytes, const StagingLayout& layout) {
  if (arena_.Holds(arena_bytes) && staging_.Holds(layout)) return {};
  FinishEarlier();
  graphs_.ForgetAddresses();
  FUSEC_RT_TRY(arena_.Grow(arena_bytes, [&](size_t bytes) {
    return AllocateDevice(context_, bytes, "the arena of a context");
  }));
  return staging_.Grow(layout);
}

// The address of each buffer of the manifest.
StatusOr<std::vector<CUdeviceptr>> CudaExecutor::Locate(const RunBindings& bindings,
                                                        const StagingLayout& layout) const {
  const Manifest& manifest = device_.manifest();
  std::vector<CUdeviceptr> buffers(manifest.buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t offset = bindings.arena->offsets[i];
    buffers[i] = offset >= 0 ? arena_.get() + static_cast<CUdeviceptr>(offset)
                             : device_.AddressForKernels(static_cast<int>(i));
  }
  const auto buffer_of = [&](const TensorSignature& tensor) -> CUdeviceptr& {
    return buffers[static_cast<size_t>(tensor.buffer)];
  };
  const auto locate = [&](const TensorSignature& tensor, const TensorBinding& binding,
                          TensorPlace place) -> Status {
    FUSEC_RT_TRY(CheckAligned(binding, tensor));
    const bool in_place = place == TensorPlace::kDevice || place == TensorPlace::kPinnedMapped;
    // The GPU and the host share one address space. Empty tensors have no place in staging.
    buffer_of(tensor) =
        in_place ? reinterpret_cast<CUdeviceptr>(binding.data) : staging_.device_address();
    return {};
  };
  for (size_t i = 0; i < bindings.inputs.size(); ++i) {
    FUSEC_RT_TRY(locate(manifest.inputs[i], bindings.inputs[i], places_.input(i)));
  }
  for (size_t i = 0; i < bindings.outputs.size(); ++i) {
    FUSEC_RT_TRY(locate(manifest.outputs[i], bindings.outputs[i], places_.output(i)));
  }
  for (const StagedTensor& input : layout.inputs)
    buffer_of(manifest.inputs[input.tensor]) += input.offset;
  for (const StagedTensor& output : layout.outputs) {
    const bool is_mapped = output.place == TensorPlace::kStagedMapped;
    buffer_of(manifest.outputs[output.tensor]) =
        (is_mapped ? staging_.host_address() : staging_.device_address()) + output.offset;
  }
  return buffers;
}

std::vector<MemoryRange> CudaExecutor::OwnMemory() const {
  return {{arena_.get(), arena_.bytes()}, {staging_.device_address(), staging_.device_bytes()}};
}

Status CudaExecutor::Start(const RunBindings& bindings, CUstream stream, bool is_awaited) {
  const WeightsSwitch::Enqueuing enqueuing(device_.weights_switch());
  const bool other_dims = !std::equal(bindings.symbols.begin(), bindings.symbols.end(),
                                      running_symbols_.begin(), running_symbols_.end());
  if (running_ && other_dims)
    FinishEarlier();  // because the text of an index error needs the dims of its run
  FUSEC_RT_ASSIGN(const PreparedRun* prepared, Prepare(bindings, is_awaited));
  // The staging buffers may still be in use, or hold results that were not copied to the caller.
  if (places_.uses_host_staging() || staging_.has_outputs()) FinishEarlier();
  if (prepared->signals_end) reports().has_ended = 0;  // no running run can set it
  const Status enqueued = EnqueueRun(*prepared, bindings, stream);
  if (!enqueued) {
    // After an error the caller may free memory that enqueued copies still use, so wait for them.
    static_cast<void>(context_.driver().cuStreamSynchronize(stream));
    staging_.DropOutputs();
    return enqueued;
  }
  running_ = true;
  running_signals_end_ = prepared->signals_end;
  running_stream_ = stream;
  running_symbols_.assign(bindings.symbols.begin(), bindings.symbols.end());
  return {};
}

Status CudaExecutor::EnqueueRun(const PreparedRun& prepared, const RunBindings& bindings,
                                CUstream stream) {
  const CUstream own_stream = own_.stream.get();
  const auto record_done = [this](CUstream recorded) {
    return FUSEC_CUDA(context_, {}, cuEventRecord, own_.done.get(), recorded);
  };
  if (running_ && running_stream_ != stream) {
    if (running_stream_ == own_stream) FUSEC_RT_TRY(record_done(running_stream_));
    FUSEC_RT_TRY(FUSEC_CUDA(context_, {}, cuStreamWaitEvent, stream, own_.done.get(),
                            CU_EVENT_WAIT_DEFAULT));
  }
  FUSEC_RT_TRY(device_.weights_switch().WaitForLast(member_, stream));
  member_.is_on_own_stream = stream == own_stream;
  FUSEC_RT_TRY(staging_.SendInputs(bindings, prepared.layout, stream));
  FUSEC_RT_TRY(prepared.Launch(graphs_.environment(), stream));
  FUSEC_RT_TRY(staging_.FetchOutputs(bindings, prepared.layout, stream));
  // The caller may have destroyed its stream when the run is waited for, so an event is recorded;
  // the executor's own stream can be waited for directly.
  return stream == own_stream ? Status() : record_done(stream);
}

Status CudaExecutor::Finish() {
  running_ = false;
  const Status waited = Wait();
  staging_.DropOutputs();
  if (!waited) {
    return Fail(
        waited.error().code, waited.error().message,
        device_.use_graphs() ? "; FUSEC_CUDA_GRAPH=0 runs step by step and names the kernel" : "");
  }
  return CheckErrors();
}

// Waits for the run, and copies its outputs from staging to the caller.
Status CudaExecutor::Wait() {
  FUSEC_RT_TRY(staging_.TakePieces());
  if (!running_signals_end_ || !SeesEnd()) {
    FUSEC_RT_TRY(running_stream_ == own_.stream.get()
                     ? FUSEC_CUDA(context_, "the program", cuStreamSynchronize, running_stream_)
                     : FUSEC_CUDA(context_, "the program", cuEventSynchronize, own_.done.get()));
  }
  staging_.TakeWhole();
  return {};
}

// Polls the word of end_run; returns whether the run has ended. After a time limit the caller waits
// through the driver instead, which may put the thread to sleep and detects errors of the GPU.
bool CudaExecutor::SeesEnd() const {
  constexpr std::chrono::milliseconds kLongest(1);
  const std::atomic_ref<uint32_t> has_ended(reports().has_ended);
  const auto give_up = std::chrono::steady_clock::now() + kLongest;
  do {
    if (has_ended.load(std::memory_order_acquire) != 0) return true;
  } while (std::chrono::steady_clock::now() < give_up);
  return false;
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
  FUSEC_RT_TRY(Start(bindings, own_.stream.get(), true));
  FUSEC_RT_TRY(Finish());
  return device_.AfterRun();
}

Status CudaExecutor::RunAsync(const RunBindings& bindings, void* stream) {
  FUSEC_RT_TRY(context_.Usable());
  ScopedContext scope(context_);
  FUSEC_RT_TRY(Start(bindings, static_cast<CUstream>(stream), false));
  return device_.AfterRun();
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
