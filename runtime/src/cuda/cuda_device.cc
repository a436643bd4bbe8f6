#include "runtime/src/cuda/cuda_device.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "runtime/src/cuda/cuda_executor.h"
#include "runtime/src/cuda/nvrtc.h"
#include "runtime/src/parallel.h"

namespace fusec::runtime {
namespace {

constexpr int kMostCopyThreads = 8;  // about as many as use the full 50 GB/s of PCIe 5

bool HasMatmul(const Target& target) {
  return std::any_of(target.steps.begin(), target.steps.end(),
                     [](const Step& step) { return step.kind == Step::Kind::kMatmul; });
}

}  // namespace

CudaDevice::CudaDevice(const Artifact& artifact, std::unique_ptr<CudaContext> context)
    : artifact_(artifact),
      context_(std::move(context)),
      weights_switch_(*context_),
      epilogues_(*context_) {}

CudaDevice::~CudaDevice() = default;

StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(const Artifact& artifact, int ordinal,
                                                         std::unique_ptr<CudaContext> context) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(artifact, std::move(context)));
  device->name_ = Text("cuda:", ordinal, " ", device->context_->gpu_name());
  FUSEC_RT_TRY(device->Load());
  return device;
}

Status CudaDevice::Load() {
  FUSEC_RT_ASSIGN(GpuTargetChoice choice, ChooseGpuTarget(manifest(), context_->capability()));
  FUSEC_RT_ASSIGN(const int most_shared_bytes,
                  context_->Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  target_ = *choice.target;
  FUSEC_RT_ASSIGN(const int multiprocessors,
                  context_->Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  target_.steps = WithinSharedMemory(
      ForMultiprocessors(choice.target->steps, choice.target->multiprocessors, multiprocessors),
      most_shared_bytes);
  choice.target = &target_;
  machine_code_fits_ = choice.machine_code_fits;
  launches_dependently_ = machine_code_fits_ && context_->capability() >= 90;
  precision_ = PrecisionNamed(manifest().matmul_precision);
  const char* graphs = std::getenv("FUSEC_CUDA_GRAPH");
  use_graphs_ = graphs == nullptr || std::string_view(graphs) != "0";
  FUSEC_RT_ASSIGN(const int threads, ThreadCountFromEnvironment());
  copy_threads_ = std::min(threads, kMostCopyThreads);
  ScopedContext scope(*context_);
  FUSEC_RT_ASSIGN(kernels_, CudaKernels::Load(*context_, artifact_, choice));
  if (HasMatmul(target_)) {
    FUSEC_RT_ASSIGN(cublaslt_, CublasLt::Create(*context_));
  }
  FUSEC_RT_ASSIGN(weights_, CudaWeights::Upload(*context_, artifact_));
  return row_caches_.Create();
}

CUdeviceptr CudaDevice::AddressForKernels(int buffer) const {
  const CUdeviceptr cached = row_caches_.Address(buffer);
  return cached != 0 ? cached : weights_.Address(buffer);
}

Status CudaDevice::AfterRun() {
  if (row_caches_.empty() || !row_caches_.Ended()) return {};
  const std::unique_lock lock(changes_, std::try_to_lock);
  return lock ? row_caches_.EndPeriod() : Status();  // otherwise one of the next runs does it
}

Status CudaDevice::WarmTable(const Table& table, const void* ids, fusec_dtype id_dtype,
                             int64_t count) {
  FUSEC_RT_TRY(context_->Usable());
  const std::lock_guard lock(changes_);
  ScopedContext scope(*context_);
  return row_caches_.Warm(table, ids, id_dtype, count);
}

StatusOr<fusec_cache_info> CudaDevice::TableCache(const Table& table) {
  FUSEC_RT_TRY(context_->Usable());
  const std::lock_guard lock(changes_);
  ScopedContext scope(*context_);
  return row_caches_.Info(table);
}

StatusOr<std::unique_ptr<Executor>> CudaDevice::NewExecutor() {
  FUSEC_RT_ASSIGN(std::unique_ptr<CudaExecutor> executor, CudaExecutor::Create(*this));
  return std::unique_ptr<Executor>(std::move(executor));
}

Status CudaDevice::EnqueueWeights(ChangedWeights& changed, const Artifact& weights,
                                  std::span<const ConstantPart> kept, CUstream stream) const {
  FUSEC_RT_TRY(weights_.EnqueueCopies(*context_, changed, weights, kept, stream));
  return changed.on_host.empty() ? Status() : row_caches_.EnqueueCopyOfAll(stream);
}

// The addresses of constants do not change, because captured graphs contain them.
Status CudaDevice::UpdateWeights(std::unique_ptr<Artifact> weights,
                                 std::span<const ConstantPart> kept) {
  FUSEC_RT_TRY(context_->Usable());
  const std::lock_guard lock(changes_);
  ScopedContext scope(*context_);
  const Artifact& old = updated_ ? *updated_ : artifact_;
  FUSEC_RT_ASSIGN(ChangedWeights changed,
                  CudaWeights::UploadChanged(*context_, *weights, old, rows_.written()));
  FUSEC_RT_TRY(weights_switch_.Switch(
      [&](CUstream stream) { return EnqueueWeights(changed, *weights, kept, stream); }));
  updated_ = std::move(weights);
  rows_.ForgetWritten();
  return {};
}

Status CudaDevice::WriteConstants(std::span<const ConstantPart> parts,
                                  std::span<const std::vector<std::byte>> contents) {
  FUSEC_RT_TRY(context_->Usable());
  const std::lock_guard lock(changes_);
  ScopedContext scope(*context_);
  FUSEC_RT_ASSIGN(const UploadedBytes uploaded, UploadBytes(*context_, contents));
  return weights_switch_.Switch([&](CUstream stream) -> Status {
    for (size_t i = 0; i < parts.size(); ++i) {
      FUSEC_RT_TRY(weights_.EnqueueCopy(*context_, parts[i], uploaded.addresses[i], stream));
    }
    return {};
  });
}

Status CudaDevice::UpdateRows(const RowUpdate& update) {
  FUSEC_RT_TRY(context_->Usable());
  const std::lock_guard lock(changes_);
  ScopedContext scope(*context_);
  return rows_.Update(update);
}

StatusOr<CudaModule> CudaDevice::LoadRowKernels() const {
  return runtime::LoadRowKernels(*context_, artifact_, {&target_, machine_code_fits_});
}

StatusOr<void*> CudaDevice::AllocateHost(size_t bytes) {
  FUSEC_RT_TRY(context_->Usable());
  ScopedContext scope(*context_);
  bytes = std::max<size_t>(bytes, 64);
  FUSEC_RT_ASSIGN(PinnedMemory memory, AllocatePinned(*context_, bytes, "host memory"));
  void* address = memory.get();
  std::lock_guard lock(mutex_);
  pinned_.emplace(static_cast<const std::byte*>(address), PinnedBlock{std::move(memory), bytes});
  return address;
}

void CudaDevice::FreeHost(void* memory) {
  std::unique_lock lock(mutex_);
  const auto freed = pinned_.extract(static_cast<const std::byte*>(memory));
  lock.unlock();  // because the driver's call takes long
}

bool CudaDevice::OwnsHost(const void* memory, size_t bytes) const {
  const std::byte* begin = static_cast<const std::byte*>(memory);
  std::lock_guard lock(mutex_);
  auto block = pinned_.upper_bound(begin);
  if (block == pinned_.begin()) return false;
  --block;
  const size_t offset = static_cast<size_t>(begin - block->first);
  return offset <= block->second.bytes && bytes <= block->second.bytes - offset;
}

bool CudaDevice::IsPageLocked(const void* memory, size_t bytes) const {
  if (OwnsHost(memory, bytes)) return true;
  if (bytes == 0) return false;
  const auto driver_knows = [&](const std::byte* place) {
    unsigned type = 0;  // not changed for memory that the driver does not know
    void* values[] = {&type};
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    const CUresult result = context_->driver().cuPointerGetAttributes(
        1, attributes, values, reinterpret_cast<CUdeviceptr>(place));
    return result == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST;
  };
  const auto* begin = static_cast<const std::byte*>(memory);
  return driver_knows(begin) && driver_knows(begin + bytes - 1);
}

StatusOr<std::unique_ptr<Device>> CreateCudaDevice(const Artifact& artifact, int ordinal) {
  FUSEC_RT_ASSIGN(std::unique_ptr<CudaContext> context, CudaContext::Create(ordinal));
  FUSEC_RT_ASSIGN(std::unique_ptr<CudaDevice> device,
                  CudaDevice::Create(artifact, ordinal, std::move(context)));
  return std::unique_ptr<Device>(std::move(device));
}

Status CheckCudaDevice(const Artifact& artifact, int ordinal) {
  FUSEC_RT_ASSIGN(const auto context, CudaContext::Create(ordinal));
  FUSEC_RT_ASSIGN(const GpuTargetChoice choice,
                  ChooseGpuTarget(artifact.manifest(), context->capability()));
  FUSEC_RT_TRY(ThreadCountFromEnvironment());
  if (!choice.machine_code_fits) FUSEC_RT_TRY(Nvrtc::Get());
  if (HasMatmul(*choice.target)) {
    ScopedContext scope(*context);
    FUSEC_RT_TRY(CublasLt::Create(*context));
  }
  return {};
}

bool CudaUsable(const Artifact& artifact) {
  // The capability does not matter here: the question is only whether there is a GPU target.
  return ChooseGpuTarget(artifact.manifest(), 90).has_value() && CudaDriver::Get().has_value();
}

}  // namespace fusec::runtime
