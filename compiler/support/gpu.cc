#include "compiler/support/gpu.h"

#include <charconv>
#include <optional>

namespace fusec {

namespace {

// Sources are NVIDIA's data sheets: T4 (2019), A100 80 GB SXM (2021), A10 (2021), L40S (2023), H100
// SXM5 (2023; an H200 differs only in its memory, 4.8 TB/s), DGX and HGX B200 (2024, divided by 8),
// and for the GeForce RTX 5090 appendix A of "NVIDIA RTX Blackwell GPU Architecture". Where a
// source only gives a peak with sparsity, half of it is listed. Columns: name, multiprocessors,
// memory bandwidth in bytes per second, and operations per second in f32, TF32 and f16.
// clang-format off
constexpr Card kT4      = {"T4",               40, 0.320e12,   8.1e12,        0,    65e12};
constexpr Card kA100    = {"A100 SXM 80 GB",  108, 2.039e12,  19.5e12,   156e12,   312e12};
constexpr Card kA10     = {"A10",              72, 0.600e12,  31.2e12,  62.5e12,   125e12};
constexpr Card kL40S    = {"L40S",            142, 0.864e12,  91.6e12,   183e12,   362e12};
constexpr Card kH100    = {"H100 SXM5",       132, 3.350e12,    67e12,   494e12,   989e12};
constexpr Card kB200    = {"B200",            148, 8.000e12,    75e12,  1125e12,  2250e12};
constexpr Card kRtx5090 = {"RTX 5090",        170, 1.792e12, 104.8e12, 104.8e12, 209.5e12};
// clang-format on

constexpr GpuFeatures kTuring = {};
constexpr GpuFeatures kAmpere = {.tensor_cores = true, .async_copies = true};
constexpr GpuFeatures kHopper = {
    .tensor_cores = true, .async_copies = true, .clusters = true, .dependent_launch = true};
constexpr GpuFeatures kHopperA = {.tensor_cores = true,
                                  .async_copies = true,
                                  .clusters = true,
                                  .dependent_launch = true,
                                  .warpgroup_products = true};
// Only sm_90a has wgmma. fusec's kernels use no feature that is new in Blackwell (tcgen05).
constexpr GpuFeatures kBlackwell = kHopper;

constexpr int kRegisters = 64 << 10;

// Sources: CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability" and
// "Feature Support per Compute Capability"; for blocks and shared memory also cuda_occupancy.h of
// toolkit 13.0; for wgmma PTX ISA 9.0. Architectures without a card above use that of the nearest
// one. Columns: architecture and capability; threads, blocks, registers and bytes of shared memory
// of a multiprocessor, and the most shared memory of a block; features; card.
// clang-format off
constexpr Gpu kGpus[] = {
    {"sm_75",    75, 1024, 16, kRegisters,  64 << 10,  64 << 10, kTuring,    &kT4},
    {"sm_80",    80, 2048, 32, kRegisters, 164 << 10, 163 << 10, kAmpere,    &kA100},
    {"sm_86",    86, 1536, 16, kRegisters, 100 << 10,  99 << 10, kAmpere,    &kA10},
    {"sm_87",    87, 1536, 16, kRegisters, 164 << 10, 163 << 10, kAmpere,    &kA10},
    {"sm_89",    89, 1536, 24, kRegisters, 100 << 10,  99 << 10, kAmpere,    &kL40S},
    {"sm_90",    90, 2048, 32, kRegisters, 228 << 10, 227 << 10, kHopper,    &kH100},
    {"sm_90a",   90, 2048, 32, kRegisters, 228 << 10, 227 << 10, kHopperA,   &kH100},
    {"sm_100",  100, 2048, 32, kRegisters, 228 << 10, 227 << 10, kBlackwell, &kB200},
    {"sm_100a", 100, 2048, 32, kRegisters, 228 << 10, 227 << 10, kBlackwell, &kB200},
    {"sm_103",  103, 2048, 32, kRegisters, 228 << 10, 227 << 10, kBlackwell, &kB200},
    {"sm_110",  110, 1536, 24, kRegisters, 228 << 10, 227 << 10, kBlackwell, &kB200},
    {"sm_120",  120, 1536, 24, kRegisters, 100 << 10,  99 << 10, kBlackwell, &kRtx5090},
    {"sm_121",  121, 1536, 24, kRegisters, 100 << 10,  99 << 10, kBlackwell, &kRtx5090},
};
// clang-format on

// 90 for "sm_90a"; nullopt for "cpu".
std::optional<int> CapabilityOf(std::string_view architecture) {
  constexpr std::string_view kPrefix = "sm_";
  if (!architecture.starts_with(kPrefix)) return std::nullopt;
  const std::string_view number = architecture.substr(kPrefix.size());
  int capability = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), capability);
  if (error != std::errc()) return std::nullopt;
  return capability;
}

}  // namespace

const Gpu* FindGpu(std::string_view architecture) {
  for (const Gpu& gpu : kGpus) {
    if (gpu.architecture == architecture) return &gpu;
  }
  const std::optional<int> capability = CapabilityOf(architecture);
  for (const Gpu& gpu : kGpus) {
    if (gpu.capability == capability) return &gpu;
  }
  return nullptr;
}

const Gpu& GpuFor(std::string_view architecture) {
  if (const Gpu* gpu = FindGpu(architecture)) return *gpu;
  const int capability = CapabilityOf(architecture).value_or(0);
  const Gpu* newest = &kGpus[0];
  for (const Gpu& gpu : kGpus) {
    if (gpu.capability > newest->capability && gpu.capability < capability) newest = &gpu;
  }
  return *newest;
}

}  // namespace fusec
