#pragma once

#include "compiler/plan/matmul/matmul_kernels.h"

// What the files that choose among kernels for a product share: its sizes, tiles, and ranges of
// rows.
namespace fusec {

inline constexpr int64_t kMostBlocks = 132;  // that a large GPU runs at once, one a multiprocessor

// Of four warps to each 64 rows.
constexpr MatMulTile Warpgroups(int rows, int columns, int stages) {
  return {rows, columns, 128, rows / 16, 1, 1, stages};
}
inline constexpr MatMulTile kSquareTile = Warpgroups(64, 64, 4), kWideTile = Warpgroups(64, 128, 4);

// Shared memory that a block may have.
int SharedBytesOf(int architecture);
// Of the rows of a product's factors.
int64_t RowBytes(const MatMulPlan& matmul);
// Whether the product is one of weights, whose panels an int must reach, and of rows that are
// copied in the background, by words at least; and the GPU has warpgroups.
bool TakesWarpgroups(const MatMulPlan& matmul, const PlanOptions& options);

// The fewest rows of each of `matrices` products of `n` columns that take more than `blocks`
// blocks.
int64_t RowsBeyond(int64_t blocks, const MatMulTile& tile, int64_t n, int64_t matrices);
// The first rows that the kernels for few leave.
int64_t FirstOfMany(const std::vector<MatMulRange>& kernels);
// Lets a tile follow from `from` rows on, behind the kernels for few, in place of what would begin
// there or later. The ranges' ends are set when all are there.
void AddTile(MatMulKernel::Kind kind, const MatMulTile& tile, int64_t from,
             std::vector<MatMulRange>& kernels);

// What makes which rows of a product whose left operand its kernel makes (MatMulPlan::made).
std::vector<MatMulRange> KernelsThatMake(const MatMulPlan& matmul, const PlanOptions& options);

}  // namespace fusec
