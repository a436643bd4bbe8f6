#pragma once

#include <string>
#include <vector>

#include "compiler/kernel/idioms.h"
#include "compiler/kernel/region_lowering.h"
#include "compiler/plan/matmul/schedule.h"
#include "compiler/plan/plan_region.h"
#include "compiler/support/adt.h"

namespace fusec {

// The value outside the region that holds the bytes of `value`: an operand, perhaps reshaped; null
// for anything else.
const Value* OperandOf(const Node& region, const Value* value);

// What kernels for matrix products have in common: names and operands, which of several products a
// block makes, and the epilogue, from one element of a product to the region's results there.
class ProductPlanner {
 protected:
  ProductPlanner(const Node& region, const MatMulPlan& matmul, KernelBuilder& builder);

  // Names the sizes, as constants or as parameters of the kernel, and makes a_ a parameter, unless
  // the kernel makes it; b_ too, where it reads weights as they are.
  void NameOperands(bool reads_weights, bool takes_sizes);
  // The kernel, which reads `more_bytes` beside its operands.
  KernelPlan Finish(int64_t more_bytes);

  int64_t columns() const { return *matmul_.n.AsConstant(); }
  int64_t depth() const { return *matmul_.k.AsConstant(); }
  int64_t matrices() const { return *matmul_.batch.AsConstant(); }
  Dtype dtype() const { return matmul_.dtype; }
  // The largest power of two up to `most` that divides the depth.
  int64_t Aligned(int64_t most) const;

  // blockIdx.x, in the type of indices.
  CExpr BlockNumber() const { return fusec::BlockNumber(builder_); }
  // The smaller of a `constant`, which is an int, and another.
  CExpr MinOf(const CExpr& constant, const CExpr& other);
  void Let(const std::string& name, const CExpr& value, const Expr& low, const Expr& high);

  // How many rows the result has.
  CExpr RowCount() { return builder_.Write(matmul_.m, CountOf("rows", "of the result")); }

  // From the operand that is called `name` on: the block's matrix of several, `stride` elements
  // each, as `sizes` call them.
  CExpr OfMatrix(const Expr& stride, const CExpr& name, std::vector<SizeName> sizes);
  // Which of the products the block takes part in, by its `number`. Of every `together` neighbours
  // all take part in the same one. Returns how many blocks are neighbours of any product.
  CExpr ChooseMatrix(const CExpr& number, const CExpr& together);

  // What is multiplied from row `first_row` on (a local, or none for row 0): a place in memory, or
  // the function that makes it (made_operand.cuh), which is written here. Needs the matrix to be
  // chosen.
  CExpr LeftFrom(const CExpr& first_row);

  // How many neighbours of a made row are made together: those of 16 bytes, or fewer that lie in
  // one row of what the operand is a view of.
  int64_t PackLanes() const;
  // Writes how that function makes a pack of `lanes` elements, from `first` on, of a made row; and
  // how it does so where the operand concatenates columns of several parts.
  void ReturnPack(const Expr& row, const Expr& first, int64_t lanes, const CExpr& lanes_name);
  void ReturnPackOfParts(const Expr& row, int64_t lanes, const CExpr& lanes_name);
  // The element of a made row with which pack number `pack` begins, of `lanes` elements each;
  // writes down where that is.
  Expr FirstOfPack(int64_t lanes, const CExpr& lanes_name);

  // Of tiles that a cluster of blocks makes, which share out the sums, where there are several:
  bool IsShared() const { return cluster_blocks_ > 1; }
  CExpr ClusterBlocks();
  // Sets the launch of tiles of `rows` x `columns`, `tiles` in all.
  void LaunchTiles(const Expr& tiles, int64_t rows, int64_t columns);
  // The number of the tile, which is written down where it is not that of the block.
  CExpr NumberOfTile(const Expr& tiles);
  // How many of a tile's `rows` the block stores; of a cluster, from first_tile_row on.
  CExpr ShareOfRows(int64_t rows, const CExpr& name);
  CExpr FromTileRow(const CExpr& from) const { return IsShared() ? "first_tile_row" + from : from; }
  void EndTile();

  // The slot, for `slot_matmul`, of row number threadIdx.x of the `rows` of a tile; -1 for none.
  CExpr ReadSlot(const Node& slot_matmul, const CExpr& rows);

  // Where a value of the product's rows has the element at `row` and `column`.
  Exprs IndexOf(const Value* value, const Expr& row, const Expr& column);
  // The same of the product.
  Exprs IndexOf(const Expr& row, const Expr& column);
  // The epilogue for that element, whose value is `product`.
  void StoreElement(const Expr& row, const Expr& column, const CExpr& product);
  // The region's results there, of which reshapes are left out.
  std::vector<Scalar> EvaluateResults(const Expr& row, const Expr& column, const CExpr& product);
  void Store(ArrayRef<Expr> index, ArrayRef<Scalar> results);
  // What the epilogue reads of weights that have one element for each column, such as a bias.
  void ReadColumnWeights(const Expr& column);
  // The ops in front of the product or behind it.
  std::string OpsInWords(bool behind_product) const;
  std::string EpilogueInWords() const;

  const Node& region_;
  const MatMulPlan& matmul_;
  KernelBuilder& builder_;
  RegionLowering lowering_;
  const Node* product_ = nullptr;
  int cluster_blocks_ = 1;              // that make a tile, which planners set first
  const Node* last_in_tile_ = nullptr;  // what the epilogue begins behind: the product, mostly
  CExpr a_, b_;                         // a_: also the function that makes it
  CExpr columns_, depth_;               // what the kernel calls these
};

// The kernels of schedules, but for those that other planners make; `tile` is a Tile or a
// Warpgroup.
KernelPlan PlanMatMulRows(const Node& region, const MatMulPlan& matmul, const schedule::Rows& rows,
                          KernelBuilder& builder);
KernelPlan PlanMatMulTile(const Node& region, const MatMulPlan& matmul, const MatMulSchedule& tile,
                          const PlanOptions& options, KernelBuilder& builder);

}  // namespace fusec
