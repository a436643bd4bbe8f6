#include "compiler/plan/attention_tiling.h"

#include <algorithm>

#include "compiler/region/attention_tiles.h"
#include "compiler/support/check.h"

namespace fusec {

namespace {

constexpr int kThreadsPerQuery = 2;  // a warp computes 16 queries
constexpr int kPanelElements = 64;   // 16-bit elements per row of a panel
constexpr int kWarpgroupThreads = 128;
constexpr int64_t kPaddingBytes = 16;  // after each row in shared memory

// Where the keys of a query are split: warps of a block, which should be kKeyWarps, and the most
// blocks of a cluster.
constexpr int kKeyWarps = 4, kMostKeyWarps = 8, kMostKeyBlocks = 8;
// The keys of a tile that each warp has: for long caches, if a key and its value take at most so
// many bytes, twice as many.
constexpr int kKeysOfWarp = 16, kMostBytesOfKey = 256;
constexpr int64_t kLongCache = 1024;
// The fewest tiles of keys for each block of a cluster: one is copied while another is used.
constexpr int64_t kLeastTiles = 2;
// Tiles that a block of a cluster copies ahead, if two blocks then fit on a multiprocessor: so few
// blocks must keep more copies in flight. An H200, 2 layers with caches of 4,096 keys for 14 heads
// of 64 elements, two of which have keys of their own, batches 1, 8 and 32: 52, 75 and 168 us; with
// 16 keys per warp and 4 tiles ahead 55, 76 and 191, with 8 warps and one tile ahead 51, 85 and 145
// (tests/gpu/results/2026-11-29-h200-caches-in-place.txt).
constexpr int kTilesAhead = 2;

int KeysOfWarp(const AttentionSizes& sizes, Dtype dtype) {
  const int64_t bytes = (InSteps(sizes.depth) + InSteps(sizes.columns)) * DtypeBytes(dtype);
  return bytes <= kMostBytesOfKey && sizes.keys > kLongCache ? 2 * kKeysOfWarp : kKeysOfWarp;
}

bool FitWarpgroups(const AttentionSizes& sizes, Dtype dtype, int block_size,
                   const PlanOptions& options) {
  return options.gpu->has.warpgroup_products && dtype != Dtype::kF32 &&
         sizes.depth % kPanelElements == 0 && sizes.columns % kPanelElements == 0 &&
         block_size % kWarpgroupThreads == 0 && sizes.keys > kPanelElements / 2;
}

}  // namespace

AttentionParts AttentionOf(const Node& region) {
  std::optional<AttentionParts> found;
  for (const auto& node : region.body->nodes) {
    if (auto parts = FindAttention(*node)) found = *std::move(parts);
  }
  FUSEC_CHECK(found.has_value(), "no attention in " + PrintNode(region));
  return *std::move(found);
}

int AttentionTiling::block_size() const {
  return kThreadsPerQuery * memory.queries * memory.key_warps;
}

AttentionTiling TileAttention(const AttentionParts& parts, const Ranges& ranges,
                              const PlanOptions& options, const LaunchShape& shape) {
  const AttentionSizes sizes = SizesOf(parts, ranges, options.matmul_precision);
  const Dtype dtype = parts.values->result()->type.dtype;
  const Expr& keys = parts.scores->result()->type.shape.back();
  AttentionTiling tiling;
  DrawnAttention& memory = tiling.memory;
  memory.has_softmax = parts.has_softmax;
  memory.key_warps = std::clamp(shape.key_warps, 1, kMostKeyWarps);
  if (memory.key_warps > 1 && options.gpu->has.clusters)
    memory.cluster_blocks = std::clamp(shape.cluster_blocks, 1, kMostKeyBlocks);
  memory.queries = memory.key_warps > 1   ? kWarpQueries
                   : shape.block_size > 0 ? shape.block_size / kThreadsPerQuery
                                          : QueriesOfBlock(sizes);
  const auto choose_tile = [&] {
    memory.by_warpgroups =
        memory.key_warps == 1 && FitWarpgroups(sizes, dtype, tiling.block_size(), options);
    memory.keys = memory.key_warps > 1   ? memory.key_warps * KeysOfWarp(sizes, dtype)
                  : memory.by_warpgroups ? kPanelElements
                                         : KeysOfTile(sizes);
    const int64_t padding = memory.by_warpgroups ? 0 : kPaddingBytes;  // panels have none
    memory.key_row = InSteps(sizes.depth) * DtypeBytes(dtype) + padding;
    memory.value_row = InSteps(sizes.columns) * DtypeBytes(dtype) + padding;
    tiling.has_one_tile =
        !tiling.splits_keys() && sizes.keys <= memory.keys && ranges.IntervalOf(keys).low > 0;
    memory.tiles = tiling.has_one_tile ? std::optional<int64_t>(1)
                                       : CeilDiv(keys, memory.keys, ranges).AsConstant();
  };
  choose_tile();
  if (memory.cluster_blocks > 1) {
    const int64_t own = CeilDiv(memory.tiles.value_or(INT32_MAX), memory.cluster_blocks);
    memory.tiles_ahead = static_cast<int>(std::clamp<int64_t>(own - 1, 1, kTilesAhead));
  }
  while (memory.tiles_ahead > 1 && 2 * memory.shared_bytes() > options.gpu->block_shared_bytes)
    --memory.tiles_ahead;
  while (memory.shared_bytes() > options.gpu->block_shared_bytes) {
    int& halved = memory.key_warps > 1 ? memory.key_warps : memory.queries;
    halved /= 2;
    choose_tile();
  }
  return tiling;
}

std::optional<LaunchShape> SplitOfKeys(const AttentionParts& parts, const Ranges& ranges,
                                       const PlanOptions& options) {
  const AttentionSizes sizes = SizesOf(parts, ranges, options.matmul_precision);
  const Dtype dtype = parts.values->result()->type.dtype;
  const int64_t tiles = CeilDiv(sizes.keys, int64_t{kKeyWarps} * KeysOfWarp(sizes, dtype));
  if (tiles <= 1) return std::nullopt;
  LaunchShape shape;
  shape.key_warps =
      TileAttention(parts, ranges, options, {.key_warps = kKeyWarps}).memory.key_warps;
  if (shape.key_warps == 1) return std::nullopt;
  int blocks = 1;
  while (options.gpu->has.clusters && blocks < kMostKeyBlocks && 2 * blocks * kLeastTiles <= tiles)
    blocks *= 2;
  if (blocks > 1) shape.cluster_blocks = blocks;
  return shape;
}

CExpr TileQueriesName(const AttentionTiling& tiling, KernelBuilder& builder) {
  return builder.expressions().Constant("tile_queries", tiling.memory.queries, "queries per block");
}

CExpr TileKeysName(const AttentionTiling& tiling, KernelBuilder& builder) {
  return builder.expressions().Constant("tile_keys", tiling.memory.keys, "keys per tile");
}

CExpr TilesInMemoryName(const AttentionTiling& tiling, KernelBuilder& builder) {
  return builder.expressions().Constant(
      "tiles", tiling.memory.tiles_in_memory(),
      tiling.has_one_tile ? "tile of all keys and values" : "tiles in shared memory");
}

CExpr DeclareShape(const AttentionTiling& tiling, const CExpr& arithmetic, int64_t depth,
                   int64_t columns, KernelBuilder& builder) {
  IndexWriter& names = builder.expressions();
  const DrawnAttention& memory = tiling.memory;
  const CExpr depth_name =
      names.Constant("depth", InSteps(depth), "elements of a query and a key, in shared memory");
  const CExpr columns_name =
      names.Constant("columns", InSteps(columns), "elements of a value, in shared memory");
  std::vector<CExpr> arguments = {arithmetic,
                                  TileQueriesName(tiling, builder),
                                  TileKeysName(tiling, builder),
                                  TilesInMemoryName(tiling, builder),
                                  depth_name,
                                  columns_name,
                                  memory.by_warpgroups ? "WarpgroupProducts" : "WarpProducts"};
  CExpr tile = "blockIdx.x";
  if (tiling.splits_keys()) {
    arguments.push_back(
        names.Constant("key_warps", memory.key_warps, "warps that divide the keys of a tile"));
    const CExpr blocks = names.Constant("cluster_blocks", memory.cluster_blocks,
                                        "blocks that divide the tiles of keys");
    if (memory.cluster_blocks > 1) tile = tile / blocks;
    builder.Append(Statement::Using("Cluster", Template("KeyCluster", {blocks})));
  }
  builder.Append(Statement::Using("Shape", Template("AttentionShape", arguments)));
  return tile;
}

}  // namespace fusec
