#include "compiler/driver/explain/occupancy.h"

#include <algorithm>
#include <cstdlib>

namespace fusec {

namespace {

// Threads: CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability".
// Blocks and shared memory: the same, and cuda_occupancy.h of toolkit 13.0, which also has the
// granularities below.
//
//   cap  threads  blocks  shared memory
constexpr MultiprocessorLimits kLimits[] = {
    {75, 1024, 16, 64 << 10},   {80, 2048, 32, 164 << 10},  {86, 1536, 16, 100 << 10},
    {87, 1536, 16, 164 << 10},  {89, 1536, 24, 100 << 10},  {90, 2048, 32, 228 << 10},
    {100, 2048, 32, 228 << 10}, {103, 2048, 32, 228 << 10}, {110, 1536, 24, 228 << 10},
    {120, 1536, 24, 100 << 10}, {121, 1536, 24, 100 << 10},
};

constexpr int kWarp = 32;
constexpr int kRegisters = 64 << 10;       // of a multiprocessor, in four quarters
constexpr int kRegisterGranularity = 256;  // a warp's registers are a multiple of it
constexpr int kQuarters = 4;               // a warp lives in one
constexpr int64_t kReservedShared = 1024;  // of every block, by the system, since sm_80

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

std::optional<MultiprocessorLimits> LimitsOf(const std::string& architecture) {
  if (!architecture.starts_with("sm_")) return std::nullopt;
  const int capability = std::atoi(architecture.c_str() + 3);
  for (const MultiprocessorLimits& limits : kLimits) {
    if (limits.capability == capability) return limits;
  }
  return std::nullopt;
}

Occupancy OccupancyOf(const MultiprocessorLimits& limits, int threads, int registers,
                      int64_t shared_bytes) {
  const int64_t warps = (std::max(threads, 1) + kWarp - 1) / kWarp;
  const int64_t warp_registers =
      RoundUp(int64_t{std::max(registers, 1)} * kWarp, kRegisterGranularity);
  const int64_t register_warps = kRegisters / kQuarters / warp_registers * kQuarters;
  const bool is_old = limits.capability < 80;
  const int64_t block_shared =
      RoundUp(shared_bytes + (is_old ? 0 : kReservedShared), is_old ? 256 : 128);
  const std::pair<int64_t, const char*> bounds[] = {
      {limits.threads / (warps * kWarp), "threads"},
      {limits.blocks, "blocks"},
      {register_warps / warps, "registers"},
      {block_shared > 0 ? limits.shared_bytes / block_shared : limits.blocks, "shared memory"},
  };
  const auto least =
      std::min_element(std::begin(bounds), std::end(bounds),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
  Occupancy result;
  result.blocks = static_cast<int>(least->first);
  result.limit = least->second;
  result.fraction = static_cast<double>(least->first * warps * kWarp) / limits.threads;
  return result;
}

}  // namespace fusec
