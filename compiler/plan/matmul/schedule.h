#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>

#include "compiler/plan/plan_program.h"
#include "compiler/region/product.h"

namespace fusec {

// Split-K: who shares out the terms of a sum of the product, in powers of two. The parts are added
// where they meet: of warps in the block's shared memory, of blocks in that of their cluster. (An
// algorithm of the library splits sums by itself, see schedule::Library. Shares that are products
// of their own are made by the pass share-long-sums.)
struct SplitK {
  int warps = 1;   // of a block
  int blocks = 1;  // of a cluster

  bool operator==(const SplitK&) const = default;
};

// Blocks of a cluster, at most: as many as every GPU with clusters grants.
inline constexpr int kMostClusterBlocks = 8;

// The ways to make a product. Each is a small type that answers the same questions:
//
//   kKind, EachField  what its JSON says (schedule_json.cc)
//   Suffix            what the names of its kernels add to their region's: "", "_tile_64x64"
//   Words             what people read of it; "" for nothing worth saying
//   MostRows          rows above cannot be made so
//   BlockSize         threads of a block, unless a LaunchShape asks for others; 0 leaves it to the
//                     planner of its kernel, or to the library
//   SharedBytes       dynamic shared memory of a block
//   Problem           why there cannot be such a kernel of any product; "" where there can
//   Fits              whether it makes that product on the GPU of `options`
//
// How each is planned stands in plan_schedule.cc. Whether the product's kernel makes its left
// operand is the product's to say (MatMulPlan::made), and all but the library's can.
namespace schedule {

// cuBLASLt, or oneDNN on the CPU.
struct Library {
  static constexpr const char* kKind = "library";
  std::string algorithm;  // of cuBLASLt, with its split-K; "" leaves it to the library
  int place = 0;          // of the algorithm among those that the library proposes

  bool operator==(const Library&) const = default;
  template <class Self, class Field>
  static void EachField(Self& self, const Field& field) {
    field("algorithm", self.algorithm, std::string());
    field("place", self.place, 0);
  }
  std::string Suffix() const;
  std::string Words() const;
  int64_t MostRows() const { return INT64_MAX; }
  int BlockSize() const { return 0; }
  int SharedBytes(Arithmetic) const { return 0; }
  std::string Problem() const { return ""; }
  bool Fits(const MatMulPlan& matmul, const PlanOptions& options) const;
};

// An element of the result per thread or warp, as reductions are made.
struct Plain {
  static constexpr const char* kKind = "plain";

  bool operator==(const Plain&) const = default;
  template <class Self, class Field>
  static void EachField(Self&, const Field&) {}
  std::string Suffix() const { return "_plain"; }
  std::string Words() const { return ""; }
  int64_t MostRows() const { return INT64_MAX; }
  int BlockSize() const { return 0; }
  int SharedBytes(Arithmetic) const { return 0; }
  std::string Problem() const { return ""; }
  bool Fits(const MatMulPlan&, const PlanOptions&) const { return true; }
};

// Warps make a column of up to most_rows rows at once (matmul_rows.cuh).
struct Rows {
  static constexpr const char* kKind = "rows";
  int most_rows = 1;
  bool in_groups = false;  // blocks for each most_rows, else for all
  SplitK split_k;          // of warps

  bool operator==(const Rows&) const = default;
  template <class Self, class Field>
  static void EachField(Self& self, const Field& field) {
    field("most_rows", self.most_rows);
    field("in_groups", self.in_groups, false);
    field("split_k_warps", self.split_k.warps, 1);
  }
  std::string Suffix() const;
  std::string Words() const;
  int64_t MostRows() const { return in_groups ? INT64_MAX : most_rows; }
  // Blocks of groups are larger: their columns share what is read of the rows.
  int BlockSize() const { return in_groups ? 256 : 128; }
  int SharedBytes(Arithmetic) const { return 0; }
  std::string Problem() const;
  bool Fits(const MatMulPlan& matmul, const PlanOptions& options) const;
};

// What tiles have in common: a part of the result, whose sums grow by chunks of the depth, of which
// several stages are in shared memory.
struct ResultTile {
  int rows = 0, columns = 0;
  int stages = 0;
  SplitK split_k;

  bool operator==(const ResultTile&) const = default;
};

// A tile by the warps of a block (matmul_tile.cuh), which lie in rows and columns of warps. A
// warp's part is a multiple of 16 rows and 8 columns, and of a chunk 32 bytes; a chunk is a
// multiple of 128 bytes.
struct Tile : ResultTile {
  static constexpr const char* kKind = "tile";
  int chunk_bytes = 0;  // of a row of an operand
  int row_warps = 0, column_warps = 0;

  bool operator==(const Tile&) const = default;
  template <class Self, class Field>
  static void EachField(Self& self, const Field& field) {
    field("rows", self.rows);
    field("columns", self.columns);
    field("chunk_bytes", self.chunk_bytes);
    field("row_warps", self.row_warps);
    field("column_warps", self.column_warps);
    field("split_k_warps", self.split_k.warps, 1);
    field("stages", self.stages);
  }
  std::string Suffix() const;
  std::string Words() const;
  int64_t MostRows() const { return INT64_MAX; }
  int BlockSize() const { return 32 * row_warps * column_warps * split_k.warps; }
  int SharedBytes(Arithmetic arithmetic) const;
  std::string Problem() const;
  bool Fits(const MatMulPlan& matmul, const PlanOptions& options) const;
};

// A tile by four warps for each 64 rows, and four more that copy, in a block or in each of a
// cluster (matmul_warpgroup.cuh).
struct Warpgroup : ResultTile {
  static constexpr const char* kKind = "warpgroup";
  static constexpr int kPanelBytes = 128;  // of a row of weights
  static constexpr int kGroupRows = 64;
  static constexpr int kMostSharedBytes = 232448;  // of a GPU that has warpgroups

  bool operator==(const Warpgroup&) const = default;
  template <class Self, class Field>
  static void EachField(Self& self, const Field& field) {
    field("rows", self.rows);
    field("columns", self.columns);
    field("split_k_blocks", self.split_k.blocks, 1);
    field("stages", self.stages);
  }
  int groups() const { return rows / kGroupRows; }
  // Whether two blocks share a multiprocessor, as kHasNeighbour of the kernel says, so that one
  // stores its tile while the other multiplies.
  bool HasNeighbour(Arithmetic arithmetic, bool makes_operand) const;
  // In a stage: of a row of either operand, and of all.
  static int ChunkBytes(Arithmetic arithmetic);
  static int64_t Chunks(const MatMulPlan& matmul, Arithmetic arithmetic);  // of a row
  int StageBytes(Arithmetic arithmetic) const;
  std::string Suffix() const;
  std::string Words() const;
  int64_t MostRows() const { return INT64_MAX; }
  int BlockSize() const { return 128 * (groups() + 1); }
  int SharedBytes(Arithmetic arithmetic) const;
  std::string Problem() const;
  bool Fits(const MatMulPlan& matmul, const PlanOptions& options) const;
  // The same of some tile: the GPU has such products, and this is one of weights, whose panels an
  // int must reach, and of rows that are copied in the background, by words at least.
  static bool Takes(const MatMulPlan& matmul, const PlanOptions& options);
};

}  // namespace schedule

using MatMulSchedule = std::variant<schedule::Library, schedule::Plain, schedule::Rows,
                                    schedule::Tile, schedule::Warpgroup>;

// What the alternatives answer.
std::string SuffixOf(const MatMulSchedule& schedule);
std::string WordsOf(const MatMulSchedule& schedule);
int64_t MostRowsOf(const MatMulSchedule& schedule);
int BlockSizeOf(const MatMulSchedule& schedule);
int SharedBytesOf(const MatMulSchedule& schedule, Arithmetic arithmetic);
bool Fits(const MatMulSchedule& schedule, const MatMulPlan& matmul, const PlanOptions& options);

// {"kind": "tile", "rows": 64, ...}, and back: throws nlohmann::json::exception where the fields
// are those of no schedule.
nlohmann::ordered_json ScheduleJson(const MatMulSchedule& schedule);
MatMulSchedule ScheduleOf(const nlohmann::ordered_json& json);

// Whether kernels of ours can make the product: its operands lie as these read them.
bool TakesOwnKernel(const MatMulPlan& matmul);
Arithmetic ArithmeticOf(const MatMulPlan& matmul, const PlanOptions& options);
// The same of a tile by warpgroups, which multiply codes in fp8 as they are.
Arithmetic WarpgroupArithmeticOf(const MatMulPlan& matmul, const PlanOptions& options);
// Of the rows of a product's factors.
int64_t RowBytes(const MatMulPlan& matmul);

}  // namespace fusec
