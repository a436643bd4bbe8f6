#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/src/cpu/host_matmul.h"
#include "runtime/src/cpu/onednn.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// What the contexts of a program share for its matmuls: weights in better layouts, made when first
// needed.
class CpuMatmulWeights {
 public:
  PackedWeights& packed() { return packed_; }
  // A constant buffer of f16 or bf16 as f32, once.
  const float* Widened(fusec_dtype dtype, std::span<const std::byte> constant);
  // A constant f32 matrix b as PackPanels lays it out, once.
  const float* Panels(const HostMatmul& call);

 private:
  struct PanelsKey {
    const void* b;
    bool transposed;
    int64_t n, k;
    auto operator<=>(const PanelsKey&) const = default;
  };
  PackedWeights packed_;
  std::mutex mutex_;
  std::map<const void*, std::vector<float>> widened_;  // by the constant's first byte
  std::map<PanelsKey, std::vector<float>> panels_;
};

// One matmul of a run.
struct CpuMatmulCall {
  HostMatmul matmul;                      // with this run's pointers
  std::span<const std::byte> constant_b;  // the whole buffer that b lies in, if it is constant
};

// Runs the matmuls of one context: oneDNN where it is installed and has the dtype, through f32
// where it lacks f16 or bf16, else (and with an addend, which compilation for CPUs leaves to its
// kernels) the runtime's own product. Primitives are kept for the last
// shapes seen.
class CpuMatmul {
 public:
  // `library` may be null: no oneDNN.
  CpuMatmul(const OneDnn* library, CpuMatmulWeights& weights)
      : library_(library), weights_(weights) {}

  // `step` tells the matmuls of a program apart. Fails only for a dtype or activation that nothing
  // here computes.
  Status Run(int step, const CpuMatmulCall& call, int threads);

 private:
  struct Prepared {
    fusec_dtype dtype = FUSEC_F32;
    int threads = 0;
    MatmulSizes sizes;
    const void* constant_b = nullptr;         // null if b is not constant
    std::unique_ptr<OneDnnMatmul> primitive;  // null: oneDNN has none
    uint64_t last_use = 0;
  };
  const OneDnnMatmul* Prepare(int step, const CpuMatmulCall& call, int threads);
  bool RunWidened(int step, const CpuMatmulCall& call, int threads);

  const OneDnn* library_;
  CpuMatmulWeights& weights_;
  std::map<int, std::vector<Prepared>> prepared_;  // by step
  uint64_t uses_ = 0;
  std::vector<float> wide_a_, wide_b_, wide_bias_, wide_addend_, wide_d_;
};

}  // namespace fusec::runtime
