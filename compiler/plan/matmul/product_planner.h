#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/kernel/idioms.h"
#include "compiler/kernel/region_lowering.h"
#include "compiler/plan/matmul/schedule.h"
#include "compiler/plan/plan_region.h"
#include "compiler/region/memory_place.h"
#include "compiler/support/adt.h"

namespace fusec {

// The common parts of kernels for matrix products: names and operands, which of several products a
// block computes, and the epilogue, which computes the region's results from an element of the
// product.
class ProductPlanner {
 protected:
  ProductPlanner(const Node& region, const MatMulPlan& matmul, KernelBuilder& builder);

  // Names the sizes, as constants or (takes_sizes) as parameters of the kernel. Makes a_ a
  // parameter, unless the kernel computes it, and b_ if the kernel reads weights in their plain
  // layout (reads_weights).
  void NameOperands(bool reads_weights, bool takes_sizes);
  // Finishes the kernel, which reads `more_bytes` in addition to its operands.
  KernelPlan Finish(int64_t more_bytes);

  int64_t columns() const { return *matmul_.n.AsConstant(); }
  // The columns of the result: half of those of the product if the region combines pairs of these
  // (IsPaired).
  int64_t result_columns() const { return is_paired_ ? columns() / 2 : columns(); }
  CExpr ResultColumns();
  // The column of a paired product that belongs to `column` of the result and the first of the two
  // products; that of the second is InTurn() behind it.
  CExpr FirstOfPair(const CExpr& column) {
    return column / InTurn() * PairColumns() + column % InTurn();
  }
  // The names of kPairedColumns, and of twice as many.
  CExpr InTurn();
  CExpr PairColumns();
  int64_t depth() const { return *matmul_.k.AsConstant(); }
  int64_t matrices() const { return *matmul_.batch.AsConstant(); }
  Dtype dtype() const { return matmul_.dtype; }
  // The largest power of two up to `most` that divides the depth.
  int64_t Aligned(int64_t most) const;

  // blockIdx.x, in the type of indices.
  CExpr BlockNumber() const { return fusec::BlockNumber(builder_); }
  // The minimum of `constant`, which is an int, and `other`.
  CExpr MinOf(const CExpr& constant, const CExpr& other);
  void Let(const std::string& name, const CExpr& value, const Expr& low, const Expr& high);

  // The number of rows of the result.
  CExpr RowCount() { return builder_.Write(matmul_.m, CountOf("rows", "rows of the result")); }

  // Points to the block's matrix in the operand called `name`, which has one matrix for each
  // product, `stride` elements apart; `sizes` are names for the stride.
  CExpr OfMatrix(const Expr& stride, const CExpr& name, std::vector<SizeName> sizes);
  // Writes which of the products a block works on, given its `number`. All of `together`
  // consecutive blocks (one if it is empty) work on the same product. Returns the number of
  // consecutive blocks after which the products repeat: `together` times the number of products.
  CExpr ChooseMatrix(const CExpr& number, const CExpr& together);

  // The left operand from row `first_row` on (a local; empty for row 0): a pointer, or the function
  // that computes it (made_operand.cuh), which is written here. ChooseMatrix must precede it.
  CExpr LeftFrom(const CExpr& first_row);

  // The number of consecutive elements of a computed row that are computed together: 16 bytes, or
  // fewer if they would not lie in one row of the value that the operand is a view of.
  int64_t PackLanes() const;
  // Write the code of that function: it returns a pack of `lanes` elements of a computed row, from
  // `first` on. The second one is for operands that concatenate the columns of several parts.
  void ReturnPack(const Expr& row, const Expr& first, int64_t lanes, const CExpr& lanes_name);
  void ReturnPackOfParts(const Expr& row, int64_t lanes, const CExpr& lanes_name);
  // Writes and returns the position of the first element of pack number `pack` in a computed row;
  // packs have `lanes` elements.
  Expr FirstOfPack(int64_t lanes, const CExpr& lanes_name);

  // The function that computes weights pack by pack, which is written here. A pack has `lanes`
  // consecutive weights of `column`, a local; with `first_column`, of a column that is a parameter
  // of the function and counts from that local on (PlanMatMulFewRows).
  CExpr RightFrom(const CExpr& column, const CExpr& first_column, int64_t lanes,
                  const CExpr& lanes_name);
  // The same for weights of 4 bits in half precision: the function stores a pack in words
  // (dequantize_int4.cuh). Empty, and nothing is written, for other weights.
  CExpr RightInWords(const CExpr& first_column, int64_t lanes, const CExpr& lanes_name);
  // Opens such a function, whose parameters are the number of a column and of a pack, and `made`.
  std::string OpenRight(const CExpr& column, const CExpr& first_column, int64_t lanes,
                        const CExpr& lanes_name, const std::string& made);
  CExpr CloseRight(const std::string& parameters);
  std::string right_name_;  // of the function, once it has been opened

  // Functions for tiles whose depth the blocks of a cluster may split:
  bool IsShared() const { return cluster_blocks_ > 1; }
  CExpr ClusterBlocks();
  // Sets the launch shape for `tiles` tiles of `rows` x `columns`.
  void LaunchTiles(const Expr& tiles, int64_t rows, int64_t columns);
  // The number of the block's tile; a local if it is not the number of the block.
  CExpr NumberOfTile(const Expr& tiles);
  // How many of a tile's `rows` the block stores. In a cluster, these begin at the local
  // first_tile_row.
  CExpr ShareOfRows(int64_t rows, const CExpr& name);
  CExpr FromTileRow(const CExpr& from) const { return IsShared() ? "first_tile_row" + from : from; }
  void EndTile();

  // Writes how thread number threadIdx.x reads the slot of that row of the tile for `slot_matmul`,
  // -1 for none. The tile has `rows` rows.
  CExpr ReadSlot(const Node& slot_matmul, const CExpr& rows);

  // The index of the element at `row` and `column` in a value that has the rows of the product.
  Exprs IndexOf(const Value* value, const Expr& row, const Expr& column);
  // The same for the product.
  Exprs IndexOf(const Expr& row, const Expr& column);
  // Writes the epilogue for the element of the result at `row` and `column`. Its elements of the
  // product are the local `product` and, if the region combines pairs, `second_product`.
  void StoreElement(const Expr& row, const Expr& column);
  // The region's results for that element; reshapes of the results are skipped.
  std::vector<Scalar> EvaluateResults(const Expr& row, const Expr& column);
  // The index of that element.
  Exprs IndexOfResult(const Expr& row, const Expr& column);
  void Store(ArrayRef<Expr> index, ArrayRef<Scalar> results);
  // How a block stores a tile whose sums lie in shared memory.
  struct TileStore {
    int64_t rows, columns;  // of the tile
    CExpr block_rows;       // that the block stores (ShareOfRows)
    int64_t threads, lanes;
    // `lanes` sums of a row of the tile, from a column on, which is also given as a column of the
    // product.
    std::function<CExpr(const CExpr& row, const CExpr& tile_column, const CExpr& column)> sums;
  };
  // Writes that: each thread stores vectors of consecutive elements, always in the same columns.
  void StoreVectors(const TileStore& store);
  // Writes the loads of weights that have one element per column and that the epilogue reads, such
  // as a bias.
  void ReadColumnWeights(const Expr& column);
  // The names of the ops that make `value`, and of those after the product.
  std::string OpsOf(const Value* value) const;
  std::string OpsBehindProduct() const;
  std::string InWords(function_ref<bool(const Node&)> is_named) const;
  std::string EpilogueInWords() const;

  void LetProduct(const CExpr& value, const char* name = "product") {
    builder_.Append(Statement::Let("float", name, value));
    builder_.DefineVariable(name, 0, 0);
  }

  const Node& region_;
  const MatMulPlan& matmul_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  const Node* product_ = nullptr;
  int cluster_blocks_ = 1;              // that compute a tile; planners set it first
  bool is_paired_ = false;              // IsPaired
  bool makes_weights_ = false;          // instead of reading the dequantized ones
  const Node* last_in_tile_ = nullptr;  // the epilogue follows it: usually the product
  CExpr a_, b_;                         // a_ may also be the function that computes it
  CExpr columns_, depth_;               // the names of these sizes
};

// Plan the kernels of the schedules Rows (PlanMatMulFewRows with tensor cores, PlanMatMulColumns on
// a CPU), and Tile or Warpgroup (`tile`).
KernelPlan PlanMatMulRows(const Node& region, const MatMulPlan& matmul, const schedule::Rows& rows,
                          KernelBuilder& builder);
KernelPlan PlanMatMulFewRows(const Node& region, const MatMulPlan& matmul,
                             const schedule::Rows& rows, const PlanOptions& options,
                             KernelBuilder& builder);
KernelPlan PlanMatMulColumns(const Node& region, const MatMulPlan& matmul,
                             const schedule::Rows& rows, KernelBuilder& builder);
KernelPlan PlanMatMulTile(const Node& region, const MatMulPlan& matmul, const MatMulSchedule& tile,
                          const PlanOptions& options, KernelBuilder& builder);

}  // namespace fusec
