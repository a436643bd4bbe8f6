#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>

#include "compiler/plan/plan_program.h"
#include "compiler/region/product.h"

namespace fusec {

// Split-K: how many warps of a block and how many blocks of a cluster split the terms of each sum
// of the product; both are powers of two. The partial sums are added in the shared memory of the
// block or of the cluster. (Algorithms of the library may split sums themselves, see
// schedule::Library. The pass share-long-sums splits long sums into several products.)
struct SplitK {
  int warps = 1;   // per block
  int blocks = 1;  // per cluster

  bool operator==(const SplitK&) const = default;
};

// The most blocks of a cluster: as many as every GPU with clusters supports.
inline constexpr int kMostClusterBlocks = 8;

// The ways to compute a product (schedules). Each is a small type with the same members:
//
//   kKind, EachField  the contents of its JSON (schedule_json.cc)
//   Suffix            appended to the region's name to name its kernels: "", "_tile_64x64"
//   Words             a description for people, or ""
//   MostRows          the most rows that it can compute
//   BlockSize         threads per block, unless a LaunchShape sets others; 0 leaves it to the
//                     planner of its kernel, or to the library
//   SharedBytes       dynamic shared memory per block
//   Problem           why no product can have such a kernel; "" if products can
//   Fits              whether it can compute a product on the GPU of `options`
//
// plan_schedule.cc plans each of them. Whether the kernel computes the left operand itself is a
// property of the product (MatMulPlan::made); all schedules but the library's support it.
namespace schedule {

// cuBLASLt, or oneDNN on the CPU.
struct Library {
  static constexpr const char* kKind = "library";
  std::string algorithm;  // of cuBLASLt; "" lets the library choose
  int place = 0;          // the rank of the algorithm in the library's list

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

// One element of the result per thread or warp, as in reductions.
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

// Warps compute one column of up to most_rows rows at a time (matmul_rows.cuh). On a CPU, the same
// is done for weights that the kernel computes (matmul_columns.cuh).
struct Rows {
  static constexpr const char* kKind = "rows";
  int most_rows = 1;
  bool in_groups = false;  // other blocks for each most_rows rows
  SplitK split_k;          // across warps
  // Warps compute 16 columns at a time on tensor cores (matmul_few_rows.cuh), for 16-bit floats.
  bool tensor_cores = false;

  bool operator==(const Rows&) const = default;
  template <class Self, class Field>
  static void EachField(Self& self, const Field& field) {
    field("most_rows", self.most_rows);
    field("in_groups", self.in_groups, false);
    field("split_k_warps", self.split_k.warps, 1);
    field("tensor_cores", self.tensor_cores, false);
  }
  std::string Suffix() const;
  std::string Words() const;
  int64_t MostRows() const { return in_groups ? INT64_MAX : most_rows; }
  // Blocks of groups are larger: their columns share the rows that are read.
  int BlockSize() const { return tensor_cores ? 32 * split_k.warps : in_groups ? 256 : 128; }
  int SharedBytes(Arithmetic) const { return 0; }
  std::string Problem() const;
  bool Fits(const MatMulPlan& matmul, const PlanOptions& options) const;
  // Whether tensor cores can multiply few rows: 16-bit floats, in packs of kLeastPack or more.
  static bool TakesTensorCores(const MatMulPlan& matmul);
  // Elements of one load of dense and of packed weights, and the most loads of a thread before the
  // rows are available. With more rows, longer packs take too many registers.
  static constexpr int64_t kMostPack = 16, kMostPackedPack = 32, kMostFirstSteps = 2;
  static constexpr int kTileRows = 8, kTileColumns = 16, kMostRows = 64, kMostSums = 512,
                       kLeastPack = 4;
  // Whether there is such a kernel for a CPU.
  static bool TakesColumns(const MatMulPlan& matmul);
};

// The common part of tiles: a rectangle of the result. Its sums are accumulated over chunks of the
// depth, which pass through several stages in shared memory.
struct ResultTile {
  int rows = 0, columns = 0;
  int stages = 0;
  SplitK split_k;

  bool operator==(const ResultTile&) const = default;
};

// A tile that is computed by the warps of a block (matmul_tile.cuh), which are arranged in rows and
// columns. A warp's part of the tile is a multiple of 16 rows and 8 columns, and its part of a
// chunk is a multiple of 32 bytes; a chunk is a multiple of 128 bytes.
struct Tile : ResultTile {
  static constexpr const char* kKind = "tile";
  int chunk_bytes = 0;  // per row of an operand
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

// A tile that is computed by a block, or by each block of a cluster, with one warpgroup (four
// warps) for each 64 rows and one more that copies (matmul_warpgroup.cuh).
struct Warpgroup : ResultTile {
  static constexpr const char* kKind = "warpgroup";
  static constexpr int kPanelBytes = 128;  // per row of weights
  static constexpr int kGroupRows = 64;
  static constexpr int kMostSharedBytes = 232448;  // on GPUs with warpgroup products

  bool operator==(const Warpgroup&) const = default;
  template <class Self, class Field>
  static void EachField(Self& self, const Field& field) {
    field("rows", self.rows);
    field("columns", self.columns);
    field("split_k_blocks", self.split_k.blocks, 1);
    field("stages", self.stages);
  }
  int groups() const { return rows / kGroupRows; }
  // Whether two blocks share a multiprocessor, so that one stores its tile while the other
  // multiplies. It must agree with kHasNeighbour of the kernel (warpgroup_registers.cuh).
  bool HasNeighbour(Arithmetic arithmetic, bool makes_operand) const;
  // The bytes of a chunk per row of the left operand, the number of chunks of a row, and the bytes
  // of a stage.
  static int ChunkBytes(Arithmetic arithmetic);
  static int64_t Chunks(const MatMulPlan& matmul, Arithmetic arithmetic);
  int StageBytes(Arithmetic arithmetic) const;
  std::string Suffix() const;
  std::string Words() const;
  int64_t MostRows() const { return INT64_MAX; }
  int BlockSize() const { return 128 * (groups() + 1); }
  int SharedBytes(Arithmetic arithmetic) const;
  std::string Problem() const;
  bool Fits(const MatMulPlan& matmul, const PlanOptions& options) const;
  // Whether some tile of this kind can compute the product: the GPU has warpgroup products, the
  // right operand is weights whose panels can be indexed with an int, and rows are at least 4-byte
  // aligned, so that cp.async can copy them.
  static bool Takes(const MatMulPlan& matmul, const PlanOptions& options);
};

}  // namespace schedule

using MatMulSchedule = std::variant<schedule::Library, schedule::Plain, schedule::Rows,
                                    schedule::Tile, schedule::Warpgroup>;

// Functions that call the member of the schedule at hand.
std::string SuffixOf(const MatMulSchedule& schedule);
std::string WordsOf(const MatMulSchedule& schedule);
int64_t MostRowsOf(const MatMulSchedule& schedule);
int BlockSizeOf(const MatMulSchedule& schedule);
int SharedBytesOf(const MatMulSchedule& schedule, Arithmetic arithmetic);
bool Fits(const MatMulSchedule& schedule, const MatMulPlan& matmul, const PlanOptions& options);

// Convert a schedule to JSON, {"kind": "tile", "rows": 64, ...}, and back. ScheduleOf throws
// nlohmann::json::exception if the fields are not those of a schedule.
nlohmann::ordered_json ScheduleJson(const MatMulSchedule& schedule);
MatMulSchedule ScheduleOf(const nlohmann::ordered_json& json);

// Whether generated kernels can compute the product: they support the layout of its operands.
bool TakesOwnKernel(const MatMulPlan& matmul);
Arithmetic ArithmeticOf(const MatMulPlan& matmul, const PlanOptions& options);
// The arithmetic of a warpgroup tile; these can multiply fp8 codes directly.
Arithmetic WarpgroupArithmeticOf(const MatMulPlan& matmul, const PlanOptions& options);
// The size, in bytes, of a row of the operands of a product.
int64_t RowBytes(const MatMulPlan& matmul);

}  // namespace fusec
