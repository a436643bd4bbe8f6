#pragma once

#include "compiler/kernel/kernel_builder.h"
#include "compiler/kernel/launch_shape.h"
#include "compiler/plan/attention_drawing.h"
#include "compiler/plan/plan_program.h"
#include "compiler/region/attention_parts.h"

namespace fusec {

// The attention of a region that has one.
AttentionParts AttentionOf(const Node& region);

// How the blocks of an attention kernel divide the queries and keys of a head
// (codegen_templates/device/attention_tile.cuh).
struct AttentionTiling {
  // What a block has in shared memory.
  DrawnAttention memory;
  // One tile holds all keys, and there is at least one key.
  bool has_one_tile = false;

  int block_size() const;
  // Whether warps or blocks share the keys of a query (attention_parts.cuh).
  bool splits_keys() const { return memory.key_warps > 1 || memory.cluster_blocks > 1; }
};
// Chooses tiles; `shape` may request threads per block, or a split of the keys.
AttentionTiling TileAttention(const AttentionParts& parts, const Ranges& ranges,
                              const PlanOptions& options, const LaunchShape& shape);

// The launch shape of a kernel in which warps and blocks share the keys of a query, for attention
// whose queries alone are too few for the GPU; nullopt if there are too few keys for that.
std::optional<LaunchShape> SplitOfKeys(const AttentionParts& parts, const Ranges& ranges,
                                       const PlanOptions& options);

// The names of constants of the kernel: queries per block, keys per tile, and tiles in shared
// memory.
CExpr TileQueriesName(const AttentionTiling& tiling, KernelBuilder& builder);
CExpr TileKeysName(const AttentionTiling& tiling, KernelBuilder& builder);
CExpr TilesInMemoryName(const AttentionTiling& tiling, KernelBuilder& builder);
// Declares the types Shape (AttentionShape) and, if keys are split, Cluster (KeyCluster). A query
// has `depth` elements, a value has `columns`. Returns the number of the tile of queries.
CExpr DeclareShape(const AttentionTiling& tiling, const CExpr& arithmetic, int64_t depth,
                   int64_t columns, KernelBuilder& builder);

}  // namespace fusec
