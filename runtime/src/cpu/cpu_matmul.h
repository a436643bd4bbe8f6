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

// Weights of matmuls in faster layouts, which all contexts of a program share; each is created when
// it is first needed.
class CpuMatmulWeights {
 public:
  PackedWeights& packed() { return packed_; }
  // A constant f16 or bf16 buffer converted to f32, once.
  const float* Widened(fusec_dtype dtype, std::span<const std::byte> constant);
  // A matrix b of i8 as f32[k, n], and the sums of its columns.
  struct Short {
    std::vector<float> values;
    std::vector<int32_t> sums;
  };
  static Short Widen(const HostMatmul& call);
  // The same of a constant one, computed once.
  const Short& ShortWeights(const HostMatmul& call);
  // A constant f32 matrix b in the layout of PackPanels, packed once.
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
  std::map<PanelsKey, Short> short_;
};

// One matmul of a run.
struct CpuMatmulCall {
  HostMatmul matmul;                      // with this run's pointers
  std::span<const std::byte> constant_b;  // the whole buffer that contains b, if it is constant
};

// Runs the matmuls of one context. It uses oneDNN if it is installed and has the dtype; f16 and
// bf16 are computed in f32 if oneDNN lacks them, and so are parts of sums of 8-bit integers.
// Otherwise, for few rows by weights that oneDNN does not pack, and with an addend (which artifacts
// for CPUs do not have), it uses the runtime's own product. Primitives of the last shapes are cached.
class CpuMatmul {
 public:
  // `library` is null if oneDNN is not used.
  CpuMatmul(const OneDnn* library, CpuMatmulWeights& weights)
      : library_(library), weights_(weights) {}

  // `step` identifies the matmul in the program. It fails only if the dtype or the activation is
  // not supported.
  Status Run(int step, const CpuMatmulCall& call, int threads);

 private:
  struct Prepared {
    fusec_dtype dtype = FUSEC_F32;
    bool has_short_factors = false;
    int threads = 0;
    MatmulSizes sizes;
    const void* constant_b = nullptr;         // null if b is not constant
    std::unique_ptr<OneDnnMatmul> primitive;  // null if oneDNN cannot, or is slower
    uint64_t last_use = 0;
  };
  const OneDnnMatmul* Prepare(int step, const CpuMatmulCall& call, int threads);
  bool RunWidened(int step, const CpuMatmulCall& call, int threads);
  bool RunShort(int step, const CpuMatmulCall& call, int threads);

  const OneDnn* library_;
  CpuMatmulWeights& weights_;
  std::map<int, std::vector<Prepared>> prepared_;  // by step
  uint64_t uses_ = 0;
  std::vector<float> wide_a_, wide_b_, wide_bias_, wide_addend_, wide_d_;
};

}  // namespace fusec::runtime
