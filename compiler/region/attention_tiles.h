#pragma once

#include "compiler/region/attention_parts.h"
#include "compiler/region/product.h"

namespace fusec {

// How a thread block of attention tiles its queries and keys
// (codegen_templates/device/attention_tile.cuh), and what that costs. Passes and the planner both
// use this.
struct AttentionSizes {
  int64_t queries, keys;   // upper bounds per head
  int64_t depth, columns;  // elements of a key and of a value; 0 if not constant
  Arithmetic arithmetic;
};
// `precision` applies to f32 (PlanOptions::matmul_precision).
AttentionSizes SizesOf(const AttentionParts& parts, const Ranges& ranges,
                       const std::string& precision);

// Queries, keys and elements are padded to multiples of this, the largest step of the tensor cores.
inline constexpr int64_t kTensorCoreStep = 16;
inline int64_t InSteps(int64_t elements) {
  return CeilDiv(elements, kTensorCoreStep) * kTensorCoreStep;
}
inline constexpr int kWarpQueries = 16;

// The most elements of a key or a value for which there are enough registers.
inline constexpr int64_t kMostHeadElements = 256;

// Queries per block, unless tuning measured a better number: 16 per warp, and at most 4 warps.
int QueriesOfBlock(const AttentionSizes& sizes);
// Keys per tile of warp-level products.
int KeysOfTile(const AttentionSizes& sizes);

// Estimated cycles of an H100 multiprocessor for one head, for each of the two kernels.
struct AttentionCycles {
  double by_tiles;          // on tensor cores, padding included
  double by_block_program;  // by threads that read factors from shared memory
};
AttentionCycles EstimateCycles(const AttentionSizes& sizes);

}  // namespace fusec
