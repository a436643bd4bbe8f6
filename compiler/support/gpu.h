#pragma once

#include <cstdint>
#include <string_view>

namespace fusec {

// What a GPU is, as far as a plan depends on it. The table in gpu.cc is the only place that compares
// the names of architectures. (The runtime has peaks of its own, by the name of the card that it
// finds; it includes nothing of the compiler.)

// A card that stands for all of its generation.
struct Card {
  std::string_view name;
  int multiprocessors = 0;
  double bytes_per_second = 0;  // of its memory
  // Peaks of dense arithmetic, in operations a second: f32 on the plain cores, the others on tensor
  // cores with sums of f32. 0: there is no such arithmetic.
  double f32_flops = 0, tf32_flops = 0, f16_flops = 0;
};

// What kernels may use.
struct GpuFeatures {
  bool tensor_cores = false;        // with TF32 and bfloat16
  bool async_copies = false;        // to shared memory, in the background (cp.async)
  bool clusters = false;            // of blocks, which read each other's shared memory
  bool dependent_launch = false;    // a kernel may begin while the one before it ends
  bool warpgroup_products = false;  // by four warps, from shared memory (wgmma)
};

struct Gpu {
  std::string_view architecture;  // "sm_90a"
  int capability = 0;             // 90
  // What a multiprocessor holds at once.
  int threads = 0, blocks = 0, registers = 0;  // registers of 32 bits
  int shared_bytes = 0;
  int block_shared_bytes = 0;  // that one block may have of these
  GpuFeatures has;
  const Card* card = nullptr;  // never null in the table

  int multiprocessors() const { return card->multiprocessors; }
};

// The row of an architecture; null where the table has none for its capability. "sm_100f" has the
// row of its capability.
const Gpu* FindGpu(std::string_view architecture);

// The same, or of an architecture that the table lacks the newest that is not newer, else the oldest.
const Gpu& GpuFor(std::string_view architecture);

}  // namespace fusec
