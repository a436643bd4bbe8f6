#pragma once

#include "compiler/region/attention_parts.h"
#include "compiler/region/product.h"

namespace fusec {

// How a block of attention cuts its queries and keys (codegen_templates/device/attention_tile.cuh),
// and what that costs: what passes and the planner both ask.
struct AttentionSizes {
  int64_t queries, keys;   // of a head, at most
  int64_t depth, columns;  // elements of a key and of a value; 0 where they are no constants
  Arithmetic arithmetic;
};
// `precision` is that of f32 (PlanOptions::matmul_precision).
AttentionSizes SizesOf(const AttentionParts& parts, const Ranges& ranges,
                       const std::string& precision);

// Tensor cores take so many queries, keys and elements at once, at most.
inline constexpr int64_t kTensorCoreStep = 16;
inline int64_t InSteps(int64_t elements) {
  return CeilDiv(elements, kTensorCoreStep) * kTensorCoreStep;
}
inline constexpr int kWarpQueries = 16;

// Elements of a key or a value that registers have room for.
inline constexpr int64_t kMostHeadElements = 256;

// Of a block, where nothing was measured: a warp for each 16 queries, four at most.
int QueriesOfBlock(const AttentionSizes& sizes);
// Of a tile of products by warps.
int KeysOfTile(const AttentionSizes& sizes);

// Estimates of what a head takes of a multiprocessor of an H100, in cycles, whatever else runs.
struct AttentionCycles {
  double by_tiles;          // on tensor cores, which multiply what is not there as well
  double by_block_program;  // by threads that read each factor from shared memory
};
AttentionCycles EstimateCycles(const AttentionSizes& sizes);

}  // namespace fusec
