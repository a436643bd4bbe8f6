#include "compiler/driver/explain/occupancy.h"

#include <algorithm>

namespace fusec {

namespace {

// The granularities are those in cuda_occupancy.h of CUDA toolkit 13.0.
constexpr int kWarp = 32;
constexpr int kRegisterGranularity = 256;  // a warp gets a multiple of so many registers
constexpr int kQuarters = 4;               // partitions of a multiprocessor; a warp runs in one

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

Occupancy OccupancyOf(const Gpu& gpu, int threads, int registers, int64_t shared_bytes) {
  const int64_t warps = (std::max(threads, 1) + kWarp - 1) / kWarp;
  const int64_t warp_registers =
      RoundUp(int64_t{std::max(registers, 1)} * kWarp, kRegisterGranularity);
  const int64_t register_warps = gpu.registers / kQuarters / warp_registers * kQuarters;
  // From sm_80 on, the system reserves 1 KB of shared memory per block, and the granularity is 128
  // instead of 256 bytes.
  const int reserved = gpu.shared_bytes - gpu.block_shared_bytes;
  const int64_t block_shared = RoundUp(shared_bytes + reserved, reserved > 0 ? 128 : 256);
  const std::pair<int64_t, const char*> bounds[] = {
      {gpu.threads / (warps * kWarp), "threads"},
      {gpu.blocks, "blocks"},
      {register_warps / warps, "registers"},
      {block_shared > 0 ? gpu.shared_bytes / block_shared : gpu.blocks, "shared memory"},
  };
  const auto least =
      std::min_element(std::begin(bounds), std::end(bounds),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
  Occupancy result;
  result.blocks = static_cast<int>(least->first);
  result.limit = least->second;
  result.fraction = static_cast<double>(least->first * warps * kWarp) / gpu.threads;
  return result;
}

}  // namespace fusec
