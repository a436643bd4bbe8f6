#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/src/bench.h"
#include "runtime/src/cuda/cuda_device.h"
#include "runtime/src/parallel.h"

namespace fusec::runtime {
namespace {

// The number of f32 FMA units of one multiprocessor.
int F32Lanes(int capability) { return capability <= 80 ? 64 : 128; }

StatusOr<DevicePeaks> CudaPeaks(const CudaContext& context) {
  FUSEC_RT_ASSIGN(const int memory_khz, context.Attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE));
  FUSEC_RT_ASSIGN(const int bits, context.Attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH));
  FUSEC_RT_ASSIGN(const int khz, context.Attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE));
  FUSEC_RT_ASSIGN(const int processors,
                  context.Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  DevicePeaks peaks;
  constexpr double kTransfersPerClock = 2;
  peaks.bytes_per_second = kTransfersPerClock * memory_khz * 1e3 * bits / 8;
  peaks.f32_per_second = 2.0 * F32Lanes(context.capability()) * processors * khz * 1e3;
  peaks.source = Text("memory clock ", memory_khz / 1000, " MHz x ", bits, " bits, ", processors,
                      " multiprocessors at ", khz / 1000, " MHz");
  return peaks;
}

// The bandwidth of the fastest of some copies between two buffers that are larger than the caches.
StatusOr<DevicePeaks> CpuPeaks() {
  constexpr size_t kBytes = size_t{64} << 20;
  constexpr int kCopies = 6;
  FUSEC_RT_ASSIGN(const int threads, ThreadCountFromEnvironment());
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes);
  double best_seconds = 1e9;
  for (int i = 0; i < kCopies; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ParallelFor(threads, static_cast<int64_t>(kBytes), [&](int64_t first, int64_t last) {
      std::memcpy(to.data() + first, from.data() + first, static_cast<size_t>(last - first));
    });
    best_seconds =
        std::min(best_seconds,
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  DevicePeaks peaks;
  peaks.bytes_per_second = 2.0 * kBytes / best_seconds;
  peaks.source =
      Text("copying ", kBytes >> 20, " MiB with ", threads, threads == 1 ? " thread" : " threads");
  return peaks;
}

}  // namespace

StatusOr<DevicePeaks> PeaksOf(Device& device) {
  if (const auto* cuda = dynamic_cast<const CudaDevice*>(&device)) {
    return CudaPeaks(cuda->context());
  }
  if (device.has_device_memory()) return DevicePeaks{};  // several GPUs: unknown
  return CpuPeaks();
}

}  // namespace fusec::runtime
