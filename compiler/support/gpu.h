#pragma once

#include <cstdint>
#include <string_view>

namespace fusec {

// Properties of GPUs on which a plan depends. Only the table in gpu.cc compares names of
// architectures. (The runtime has its own table of peaks, by the name of the card that it finds; it
// includes nothing from the compiler.)

// A card that represents its generation.
struct Card {
  std::string_view name;
  int multiprocessors = 0;
  double bytes_per_second = 0;  // memory bandwidth
  // Peaks of dense arithmetic, in operations per second: f32 on the CUDA cores, the others on
  // tensor cores with f32 accumulation. 0 means that the arithmetic does not exist.
  double f32_flops = 0, tf32_flops = 0, f16_flops = 0;
};

// Hardware features that kernels may use.
struct GpuFeatures {
  bool tensor_cores = false;        // including TF32 and bfloat16
  bool async_copies = false;        // asynchronous copies to shared memory (cp.async)
  bool clusters = false;            // thread block clusters with distributed shared memory
  bool dependent_launch = false;    // programmatic dependent launch
  bool warpgroup_products = false;  // matrix products by four warps (wgmma)
};

struct Gpu {
  std::string_view architecture;  // "sm_90a"
  int capability = 0;             // 90
  // Capacity of a multiprocessor.
  int threads = 0, blocks = 0, registers = 0;  // 32-bit registers
  int shared_bytes = 0;
  int block_shared_bytes = 0;  // the most that one block may use
  GpuFeatures has;
  const Card* card = nullptr;  // never null in the table

  int multiprocessors() const { return card->multiprocessors; }
};

// The table row of an architecture, or of its compute capability ("sm_100f" has the row of 100);
// null if there is none.
const Gpu* FindGpu(std::string_view architecture);

// The same. For an architecture that the table lacks, the newest row that is not newer, or else the
// oldest.
const Gpu& GpuFor(std::string_view architecture);

}  // namespace fusec
