#include "runtime/src/cuda_executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/src/dtype.h"

namespace fusec::runtime {
namespace {

constexpr size_t kAlignment = 256;

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Generated kernels read and write 16 bytes at a time.
Status CheckAligned(const TensorBinding& binding, const TensorSignature& tensor) {
  constexpr uintptr_t kNeeded = 16;
  const uintptr_t address = reinterpret_cast<uintptr_t>(binding.data);
  if (!binding.on_device || address % kNeeded == 0) return {};
  return Fail(FUSEC_BAD_INPUT, "the device memory of \"", tensor.name, "\" starts ",
              address % kNeeded, " bytes after a multiple of ", kNeeded,
              ", expected a multiple of ", kNeeded);
}

std::byte* At(const PinnedMemory& memory, size_t offset) {
  return static_cast<std::byte*>(memory.get()) + offset;
}

}  // namespace

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
  // In host memory, so that neither clearing it nor fetching it costs a node of the graph (1 to 2
  // us each); kernels touch it only when they meet a bad index.
  FUSEC_RT_ASSIGN(errors_, AllocatePinned(context_, sizeof(IndexError), "the index error"));
  *static_cast<IndexError*>(errors_.get()) = IndexError();
  return FUSEC_CUDA(context_, "the index error", cuMemHostGetDevicePointer, &errors_address_,
                    errors_.get(), 0);
}

CudaExecutor::~CudaExecutor() {
  // What is still running uses the memory that goes away now. Its errors have nobody left to hear
  // them.
  if (running_) static_cast<void>(Finish());
}

OperationEnvironment CudaExecutor::Environment() const {
  return {&context_, device_.cublaslt(), workspace_.get(), stream_.get()};
}

CudaExecutor::Addresses CudaExecutor::LayOutStaging(const RunBindings& bindings) const {
  Addresses addresses;
  size_t end = 0;
  for (const TensorBinding& input : bindings.inputs) {
    if (input.on_device || input.bytes == 0) continue;
    addresses.inputs.push_back({input.data, end, input.bytes});
    addresses.input_bytes = end + input.bytes;
    end += RoundUp(input.bytes);
  }
  addresses.output_begin = end;
  for (const TensorBinding& output : bindings.outputs) {
    if (output.on_device || output.bytes == 0 || device_.IsPinned(output.data, output.bytes))
      continue;
    addresses.outputs.push_back({output.data, end, output.bytes});
    addresses.output_bytes = end + output.bytes - addresses.output_begin;
    end += RoundUp(output.bytes);
  }
  addresses.host_bytes = end;
  for (const TensorBinding& output : bindings.outputs) {
    if (output.on_device || output.bytes == 0 || !device_.IsPinned(output.data, output.bytes))
      continue;
    addresses.direct_outputs.push_back({end, output.data, output.bytes, false});
    end += RoundUp(output.bytes);
  }
  addresses.device_bytes = end;
  return addresses;
}

Status CudaExecutor::Reserve(size_t arena_bytes, size_t host_bytes, size_t device_bytes) {
  if (arena_bytes <= arena_bytes_ && host_bytes <= staging_host_bytes_ &&
      device_bytes <= staging_device_bytes_) {
    return {};
  }
  FinishEarlier();
  prepared_.clear();  // graphs hold the old addresses
  const auto grow = [](auto& memory, size_t& has, size_t needs, const auto& allocate) -> Status {
    if (needs <= has) return {};
    memory = {};  // first, for both together may not fit
    has = 0;
    FUSEC_RT_ASSIGN(memory, allocate());
    has = needs;
    return {};
  };
  FUSEC_RT_TRY(grow(arena_, arena_bytes_, arena_bytes, [&] {
    return AllocateDevice(context_, arena_bytes, "the arena of a context");
  }));
  FUSEC_RT_TRY(grow(staging_device_, staging_device_bytes_, device_bytes, [&] {
    return AllocateDevice(context_, device_bytes, "copies of inputs and outputs");
  }));
  return grow(staging_host_, staging_host_bytes_, host_bytes, [&] {
    return AllocatePinned(context_, host_bytes, "staging of inputs and outputs");
  });
}

StatusOr<CudaExecutor::Addresses> CudaExecutor::Locate(const RunBindings& bindings) {
  Addresses addresses = LayOutStaging(bindings);
  FUSEC_RT_TRY(Reserve(static_cast<size_t>(bindings.arena->bytes), addresses.host_bytes,
                       addresses.device_bytes));
  const Manifest& manifest = device_.manifest();
  addresses.buffers.resize(manifest.buffers.size());
  for (size_t i = 0; i < manifest.buffers.size(); ++i) {
    const int64_t offset = bindings.arena->offsets[i];
    addresses.buffers[i] = offset >= 0 ? arena_.get() + static_cast<CUdeviceptr>(offset)
                                       : device_.weights().Address(static_cast<int>(i));
  }
  const CUdeviceptr staging = staging_device_.get();
  for (CopyOperation& copy : addresses.direct_outputs) copy.device += staging;
  // The three lists hold the host tensors in the order of the manifest.
  size_t input = 0, output = 0, direct = 0;
  for (size_t i = 0; i < bindings.inputs.size(); ++i) {
    const TensorBinding& binding = bindings.inputs[i];
    FUSEC_RT_TRY(CheckAligned(binding, manifest.inputs[i]));
    addresses.buffers[static_cast<size_t>(manifest.inputs[i].buffer)] =
        binding.on_device    ? reinterpret_cast<CUdeviceptr>(binding.data)
        : binding.bytes == 0 ? staging
                             : staging + addresses.inputs[input++].offset;
  }
  for (size_t i = 0; i < bindings.outputs.size(); ++i) {
    const TensorBinding& binding = bindings.outputs[i];
    FUSEC_RT_TRY(CheckAligned(binding, manifest.outputs[i]));
    CUdeviceptr& address = addresses.buffers[static_cast<size_t>(manifest.outputs[i].buffer)];
    if (binding.on_device) {
      address = reinterpret_cast<CUdeviceptr>(binding.data);
    } else if (binding.bytes == 0) {
      address = staging;
    } else if (device_.IsPinned(binding.data, binding.bytes)) {
      address = addresses.direct_outputs[direct++].device;
    } else {
      address = staging + addresses.outputs[output++].offset;
    }
  }
  return addresses;
}

StatusOr<CudaExecutor::Prepared*> CudaExecutor::Prepare(const RunBindings& bindings,
                                                        const Addresses& addresses) {
  // All that the operations depend on; the memory that the executor owns only changes when
  // `prepared_` is emptied.
  std::vector<int64_t> key(bindings.symbols.begin(), bindings.symbols.end());
  for (const CUdeviceptr address : addresses.buffers) key.push_back(static_cast<int64_t>(address));
  for (const size_t bytes :
       {addresses.input_bytes, addresses.output_begin, addresses.output_bytes}) {
    key.push_back(static_cast<int64_t>(bytes));
  }
  for (const CopyOperation& copy : addresses.direct_outputs) {
    key.push_back(static_cast<int64_t>(copy.device));
    key.push_back(reinterpret_cast<int64_t>(copy.host));
    key.push_back(static_cast<int64_t>(copy.bytes));
  }
  for (auto entry = prepared_.begin(); entry != prepared_.end(); ++entry) {
    if (entry->key != key) continue;
    prepared_.splice(prepared_.begin(), prepared_, entry);
    return &prepared_.front();
  }
  FUSEC_RT_ASSIGN(std::vector<Operation> operations, Resolve(bindings, addresses));
  // Below capacity a new graph is made; at capacity the one used longest ago is patched, or
  // replaced where that cannot be.
  std::list<Prepared> made;
  if (prepared_.size() < kMaxGraphs) {
    made.emplace_back();
  } else {
    made.splice(made.begin(), prepared_, std::prev(prepared_.end()));
  }
  FUSEC_RT_TRY(MakeGraph(made.front(), std::move(operations)));
  made.front().key = std::move(key);
  prepared_.splice(prepared_.begin(), made);
  return &prepared_.front();
}

Status CudaExecutor::MakeGraph(Prepared& prepared, std::vector<Operation> operations) {
  if (device_.use_graphs() && !operations.empty()) {
    bool patched = false;
    if (!prepared.operations.empty()) {
      FUSEC_RT_ASSIGN(patched,
                      prepared.graph.Patch(Environment(), prepared.operations, operations));
    }
    if (!patched) {
      FinishEarlier();  // the capture stream must be idle, and the products are tried in the arena
      FUSEC_RT_TRY(WarmUp(operations));
      prepared.graph = {};
      FUSEC_RT_ASSIGN(prepared.graph, OperationGraph::Build(Environment(), operations));
    }
  }
  prepared.operations = std::move(operations);
  return {};
}

bool CudaExecutor::IsOwn(CUdeviceptr address) const {
  return (address >= arena_.get() && address < arena_.get() + arena_bytes_) ||
         (address >= staging_device_.get() &&
          address < staging_device_.get() + staging_device_bytes_);
}

// Lets cuBLASLt load the code of products it has not run before, which it could not do safely while
// a stream is captured. Their results are overwritten by the run that follows, except that memory
// of the caller is not touched outside of it: scratch takes its place.
Status CudaExecutor::WarmUp(const std::vector<Operation>& operations) {
  std::vector<DeviceMemory> scratch;
  bool enqueued = false;
  for (const Operation& operation : operations) {
    const auto* matmul = std::get_if<MatmulOperation>(&operation);
    if (matmul == nullptr || !warmed_up_.insert(matmul->plan.problem).second) continue;
    MatmulOperation trial = *matmul;
    if (!IsOwn(trial.pointers.d)) {
      const MatmulProblem& problem = trial.plan.problem;
      const int64_t elements = (problem.batch - 1) * problem.d_stride + problem.m * problem.n;
      const size_t bytes = static_cast<size_t>(elements * DtypeBytes(problem.dtype));
      FUSEC_RT_ASSIGN(DeviceMemory memory,
                      AllocateDevice(context_, bytes, "the first run of a matmul"));
      trial.pointers.d = memory.get();
      scratch.push_back(std::move(memory));
    }
    FUSEC_RT_TRY(Enqueue(Environment(), trial, stream_.get()));
    enqueued = true;
  }
  if (!enqueued) return {};
  return FUSEC_CUDA(context_, "the first run of a matmul", cuStreamSynchronize, stream_.get());
}

Status CudaExecutor::Launch(const Prepared& prepared, CUstream stream) {
  if (prepared.operations.empty()) return {};
  if (device_.use_graphs()) return prepared.graph.Launch(context_, stream);
  for (const Operation& operation : prepared.operations) {
    FUSEC_RT_TRY(Enqueue(Environment(), operation, stream));
    const auto* kernel = std::get_if<KernelOperation>(&operation);
    const auto* matmul = std::get_if<MatmulOperation>(&operation);
    const std::string_view name = kernel != nullptr   ? kernel->name
                                  : matmul != nullptr ? matmul->name
                                                      : "a copy";
    FUSEC_RT_TRY(FUSEC_CUDA(context_, name, cuStreamSynchronize, stream));
  }
  return {};
}

Status CudaExecutor::Start(const RunBindings& bindings, CUstream stream) {
  const bool other_dims = !std::equal(bindings.symbols.begin(), bindings.symbols.end(),
                                      running_symbols_.begin(), running_symbols_.end());
  if (running_ && other_dims)
    FinishEarlier();  // an index error is explained with the dims of its run
  FUSEC_RT_ASSIGN(const Addresses addresses, Locate(bindings));
  if (!addresses.inputs.empty() || !addresses.outputs.empty())
    FinishEarlier();  // staging is in use
  FUSEC_RT_ASSIGN(const Prepared* prepared, Prepare(bindings, addresses));
  if (running_ && running_stream_ != stream) {
    FUSEC_RT_TRY(
        FUSEC_CUDA(context_, {}, cuStreamWaitEvent, stream, done_.get(), CU_EVENT_WAIT_DEFAULT));
  }
  for (const StagedTensor& input : addresses.inputs) {
    std::memcpy(At(staging_host_, input.offset), input.user, input.bytes);
  }
  FUSEC_RT_TRY(Launch(*prepared, stream));
  running_ = true;
  running_stream_ = stream;
  running_outputs_ = addresses.outputs;
  running_symbols_.assign(bindings.symbols.begin(), bindings.symbols.end());
  return {};
}

Status CudaExecutor::Finish() {
  running_ = false;
  ScopedContext scope(context_);
  // A stream of the caller may be gone by now; the event is ours.
  const Status waited =
      running_stream_ == stream_.get()
          ? FUSEC_CUDA(context_, "the program", cuStreamSynchronize, stream_.get())
          : FUSEC_CUDA(context_, "the program", cuEventSynchronize, done_.get());
  if (!waited) {
    return Fail(
        waited.error().code, waited.error().message,
        device_.use_graphs() ? "; FUSEC_CUDA_GRAPH=0 runs step by step and names the kernel" : "");
  }
  for (const StagedTensor& output : running_outputs_) {
    std::memcpy(output.user, At(staging_host_, output.offset), output.bytes);
  }
  return CheckErrors();
}

void CudaExecutor::FinishEarlier() {
  if (!running_) return;
  Status finished = Finish();
  if (!finished && delayed_error_) delayed_error_ = std::move(finished);
}

Status CudaExecutor::CheckErrors() {
  IndexError* shared = static_cast<IndexError*>(errors_.get());
  const int32_t site = *static_cast<volatile const int32_t*>(&shared->site);  // written by the GPU
  if (site == 0) return {};
  const IndexError found = *shared;
  *shared = IndexError();
  return CheckIndexError(device_.manifest(), running_symbols_, found);
}

Status CudaExecutor::Run(const RunBindings& bindings) {
  FUSEC_RT_TRY(context_.Usable());
  ScopedContext scope(context_);
  FinishEarlier();
  FUSEC_RT_TRY(Start(bindings, stream_.get()));
  return Finish();
}

Status CudaExecutor::RunAsync(const RunBindings& bindings, void* stream) {
  FUSEC_RT_TRY(context_.Usable());
  ScopedContext scope(context_);
  const CUstream target = static_cast<CUstream>(stream);
  FUSEC_RT_TRY(Start(bindings, target));
  return FUSEC_CUDA(context_, {}, cuEventRecord, done_.get(), target);
}

Status CudaExecutor::Synchronize() {
  Status finished = running_ ? Finish() : Status();
  Status delayed = std::exchange(delayed_error_, Status());
  return delayed ? finished : delayed;
}

StatusOr<std::vector<double>> CudaExecutor::MeasureRuns(const RunBindings& bindings, int count) {
  constexpr int kReplays = 20;
  return Measure({&bindings, 1}, count, kReplays);
}

}  // namespace fusec::runtime
