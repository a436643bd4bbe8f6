#include <map>
#include <set>

#include "runtime/src/cuda/cuda_context.h"
#include "runtime/src/cuda/growing_memory.h"
#include "runtime/src/cuda/measured_runs.h"
#include "runtime/src/part_links.h"

namespace fusec::runtime {
namespace {

constexpr const char* kPurpose = "the results of shards";

// Kernels of shards store the rows that they look up into the memory of the home's GPU, over NVLink
// or the bus. GPUs that cannot access it store into page-locked host memory, which the home reads.
//
//   caller's stream   ──start─────────────────────────────────wait──home──done
//                        │                                     │
//   shard's stream       └─wait──shard──────────────────finished
//
// Shards on the home's GPU use the caller's stream.
class CudaLinks : public PartLinks {
 public:
  static StatusOr<std::unique_ptr<PartLinks>> Create(std::vector<int> ordinals,
                                                     std::vector<void*> streams) {
    auto links = std::make_unique<CudaLinks>();
    links->home_ = ordinals.back();
    for (const int ordinal : ordinals) {
      if (links->contexts_.count(ordinal) != 0) continue;
      FUSEC_RT_ASSIGN(links->contexts_[ordinal], CudaContext::Create(ordinal));
    }
    FUSEC_RT_TRY(links->ReachHome());
    {
      const ScopedContext scope(links->home());
      FUSEC_RT_ASSIGN(links->start_, CreateEvent(links->home(), false));
      FUSEC_RT_ASSIGN(links->done_, CreateEvent(links->home(), false));
    }
    for (size_t i = 0; i < ordinals.size(); ++i) {
      Part& part =
          links->parts_.emplace_back(Part{ordinals[i], static_cast<CUstream>(streams[i]), {}});
      if (part.ordinal == links->home_) continue;
      const ScopedContext scope(links->context(part));
      FUSEC_RT_ASSIGN(part.finished, CreateEvent(links->context(part), false));
    }
    return std::unique_ptr<PartLinks>(std::move(links));
  }

  StatusOr<std::byte*> Reserve(size_t bytes) override {
    const ScopedContext scope(home());
    if (on_device()) {
      FUSEC_RT_TRY(memory_.Grow(
          bytes, [this](size_t size) { return AllocateDevice(home(), size, kPurpose); }));
      return reinterpret_cast<std::byte*>(memory_.get());
    }
    FUSEC_RT_TRY(host_memory_.Grow(
        bytes, [this](size_t size) { return AllocatePinned(home(), size, kPurpose); }));
    return static_cast<std::byte*>(host_memory_.get());
  }
  bool on_device() const override { return cut_off_.empty(); }
  size_t device_bytes() const override { return memory_.bytes(); }
  bool CanReadHome(size_t part) const override { return cut_off_.count(parts_[part].ordinal) == 0; }

  Status Begin(void* stream) override {
    const ScopedContext scope(home());
    const auto caller = static_cast<CUstream>(stream);
    if (has_run_)
      FUSEC_RT_TRY(FUSEC_CUDA(home(), kPurpose, cuStreamWaitEvent, caller, done_.get(), 0));
    FUSEC_RT_TRY(FUSEC_CUDA(home(), kPurpose, cuEventRecord, start_.get(), caller));
    for (const Part& part : parts_) {
      if (part.ordinal == home_) continue;
      const ScopedContext on_part(context(part));
      FUSEC_RT_TRY(
          FUSEC_CUDA(context(part), kPurpose, cuStreamWaitEvent, part.stream, start_.get(), 0));
    }
    return {};
  }
  void* StreamOf(size_t part, void* stream) const override {
    return parts_[part].ordinal == home_ ? stream : static_cast<void*>(parts_[part].stream);
  }
  Status Join(void* stream) override {
    for (const Part& part : parts_) {
      if (part.ordinal == home_) continue;
      {
        const ScopedContext on_part(context(part));
        FUSEC_RT_TRY(
            FUSEC_CUDA(context(part), kPurpose, cuEventRecord, part.finished.get(), part.stream));
      }
      const ScopedContext scope(home());
      FUSEC_RT_TRY(FUSEC_CUDA(home(), kPurpose, cuStreamWaitEvent, static_cast<CUstream>(stream),
                              part.finished.get(), 0));
    }
    return {};
  }
  Status End(void* stream) override {
    const ScopedContext scope(home());
    has_run_ = true;
    return FUSEC_CUDA(home(), kPurpose, cuEventRecord, done_.get(), static_cast<CUstream>(stream));
  }

  StatusOr<std::vector<double>> Measure(std::span<const RunBindings> sets, int samples, int replays,
                                        void* stream, const StartRun& start) override {
    const ScopedContext scope(home());
    const auto own = static_cast<CUstream>(stream);
    DeviceSets copies;
    if (on_device()) {
      FUSEC_RT_ASSIGN(copies, DeviceSets::Copy(home(), nullptr, sets, own));
      sets = copies.sets;
    }
    size_t next = 0;
    const auto launch = [&](int count) -> Status {
      for (int i = 0; i < count; ++i, next = (next + 1) % sets.size())
        FUSEC_RT_TRY(start(sets[next], stream));
      return {};
    };
    FUSEC_RT_TRY(launch(2 * static_cast<int>(sets.size())));
    FUSEC_RT_TRY(FUSEC_CUDA(home(), kPurpose, cuStreamSynchronize, own));
    return TimeLaunches(home(), own, samples, replays, launch);
  }

 private:
  struct Part {
    int ordinal = 0;
    CUstream stream = nullptr;
    CudaEvent finished;  // only for parts on other GPUs than the home
  };

  const CudaContext& home() const { return *contexts_.at(home_); }
  const CudaContext& context(const Part& part) const { return *contexts_.at(part.ordinal); }

  Status ReachHome() {
    for (const auto& [ordinal, context] : contexts_) {
      if (ordinal == home_) continue;
      int can = 0;
      FUSEC_RT_TRY(FUSEC_CUDA(*context, kPurpose, cuDeviceCanAccessPeer, &can, context->device(),
                              home().device()));
      if (can == 0) {
        cut_off_.insert(ordinal);
        continue;
      }
      const ScopedContext scope(*context);
      const CUresult result = context->driver().cuCtxEnablePeerAccess(home().handle(), 0);
      if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        FUSEC_RT_TRY(context->Check(result, "cuCtxEnablePeerAccess", kPurpose));
    }
    return {};
  }

  int home_ = 0;
  std::map<int, std::unique_ptr<CudaContext>> contexts_;  // by ordinal; outlive the members below
  std::set<int> cut_off_;  // GPUs that cannot access the home's memory
  std::vector<Part> parts_;
  CudaEvent start_, done_;
  bool has_run_ = false;
  GrowingMemory<DeviceMemory> memory_{size_t{1} << 20};
  GrowingMemory<PinnedMemory> host_memory_{size_t{1} << 20};
};

}  // namespace

StatusOr<std::unique_ptr<PartLinks>> CreateCudaLinks(std::vector<int> ordinals,
                                                     std::vector<void*> streams) {
  return CudaLinks::Create(std::move(ordinals), std::move(streams));
}

}  // namespace fusec::runtime
