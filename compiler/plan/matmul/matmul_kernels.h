#pragma once

#include <string>
#include <vector>

#include "compiler/plan/plan_program.h"
#include "compiler/plan/program_plan.h"
#include "compiler/region/product.h"

namespace fusec {

// The ways to make a matrix product on a GPU, and which of them serves which number of rows.

// Blocks of a cluster, at most: as many as every GPU with clusters grants.
inline constexpr int kMostClusterBlocks = 8;

// A tile of the result per block or, by warpgroups, per cluster of blocks.
struct MatMulTile {
  int rows, columns, chunk_bytes;
  int row_warps, column_warps, depth_warps;
  int stages;
  int cluster_blocks = 1;  // that share out the sums: a power of two

  int threads() const { return 32 * row_warps * column_warps * depth_warps; }
  bool operator==(const MatMulTile&) const = default;
};

struct MatMulKernel {
  enum class Kind {
    kLibrary,     // cuBLASLt, or oneDNN on the CPU
    kPlain,       // an element of the result per thread or warp, as reductions are made
    kRows,        // warps_per_column warps per column, most_rows at once (matmul_rows.cuh)
    kTile,        // by warps (matmul_tile.cuh)
    kWarpgroups,  // a tile by four warps for 64 rows each, on sm_90a (matmul_warpgroup.cuh)
  };
  Kind kind = Kind::kLibrary;
  int most_rows = 0, warps_per_column = 1;  // of kRows
  bool in_groups = false;                   // of kRows: blocks for each most_rows, else for all
  MatMulTile tile{};                        // of kTile and kWarpgroups
  std::string algorithm;                    // of kLibrary on a GPU; "" leaves it to the library
  int place = 0;  // of the algorithm among those that the library proposes

  bool operator==(const MatMulKernel&) const = default;
  bool is_tile() const { return kind == Kind::kTile || kind == Kind::kWarpgroups; }
  int block_size() const;                 // of a tile
  int shared_bytes(bool is_split) const;  // of a tile, of a product that IsSplit
  std::string Suffix() const;             // "", "_rows_8", "_tile_64x64"
};

// A kernel and the rows that it serves, inclusive.
struct MatMulRange {
  MatMulKernel kernel;
  int64_t from = 0, to = INT64_MAX;
};

// In ascending order of rows, without gaps from the fewest rows that `ranges` allow to the most.
// Empty where neither the library (unless `library` allows it) nor a kernel of ours makes it.
std::vector<MatMulRange> ChooseMatMulKernels(const MatMulPlan& matmul, const PlanOptions& options,
                                             const Ranges& ranges, bool library);

// The kernels on tensor cores or for few rows that can make `rows` rows of the product on a GPU;
// none where its operands lie in another way than these expect.
std::vector<MatMulKernel> MatMulCandidates(const MatMulPlan& matmul, int64_t rows,
                                           const PlanOptions& options);

// How a tile by warpgroups wants the weights.
WeightLayout PanelLayout(Dtype dtype, const std::string& precision);

}  // namespace fusec
