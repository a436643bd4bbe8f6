#include <chrono>

#include "runtime/src/cpu/cpu_executor.h"
#include "runtime/src/part_links.h"

namespace fusec::runtime {
namespace {

class CpuLinks : public PartLinks {
 public:
  StatusOr<std::byte*> Reserve(size_t bytes) override {
    FUSEC_RT_TRY(memory_.Reserve(bytes, "the results of shards"));
    return memory_.data();
  }
  bool on_device() const override { return false; }
  size_t device_bytes() const override { return memory_.capacity(); }
  bool CanReadHome(size_t) const override { return true; }
  Status Begin(void*) override { return {}; }
  void* StreamOf(size_t, void* stream) const override { return stream; }
  Status Join(void*) override { return {}; }
  Status End(void*) override { return {}; }
  StatusOr<std::vector<double>> Measure(std::span<const RunBindings> sets, int samples, int replays,
                                        void* stream, const StartRun& start) override {
    std::vector<double> times_us;
    size_t next = 0;
    for (int sample = 0; sample < samples; ++sample) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < replays; ++i, next = (next + 1) % sets.size())
        FUSEC_RT_TRY(start(sets[next], stream));
      const auto time = std::chrono::steady_clock::now() - begin;
      times_us.push_back(std::chrono::duration<double, std::micro>(time).count() / replays);
    }
    return times_us;
  }

 private:
  AlignedMemory memory_;
};

}  // namespace

std::unique_ptr<PartLinks> CreateCpuLinks() { return std::make_unique<CpuLinks>(); }

}  // namespace fusec::runtime
