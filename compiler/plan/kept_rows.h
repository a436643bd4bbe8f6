#pragma once

#include <optional>

#include "compiler/kernel/region_lowering.h"
#include "compiler/region/block_stages.h"
#include "compiler/support/adt.h"

namespace fusec {

// Elements of a value that shared memory holds in 16 bytes; halves are kept as floats.
int64_t KeptLanes(const Value* value);

// How a block keeps a value of its rows in shared memory. Runs that are read at once by threads at
// different runs would meet in few banks if they began at multiples of 8 words, so that a gap is
// left behind each: one vector, so that runs can still be read in vectors, or one element unless
// `vector_gaps`.
// The lines of a matrix of tensor cores (`is_matrix`) stay whole.
RegionLowering::KeptRows PlaceKeptRows(const Node& region, const Value* value, ShapeRef rows,
                                       bool vector_gaps, bool is_matrix);
// Whether tensor cores read or make `value`.
bool IsMatrixOfTensorCores(ArrayRef<BlockStage> stages, const Value* value);

// Whether a value of the region is a constant matrix that a product takes, whose rows are whole
// vectors: a block may keep it for all of its rows, as it lies in memory but for such gaps.
bool IsKeepableWeights(const Node& region, const Value* value);
// Whether all products that take it have its rows along their depth.
bool IsReadAlongDepth(const Node& region, const Value* weights);
RegionLowering::KeptRows PlaceKeptWeights(const Node& region, const Value* weights);
// Begins to copy them from `buffer`, a parameter; `lanes` names the elements of a vector.
void CopyKeptWeights(KernelBuilder& builder, const Value* weights, const CExpr& buffer,
                     const RegionLowering::KeptRows& kept, const CExpr& lanes);

// Whether the weights of a product on tensor cores come rounded (WeightLayout::kTf32).
bool IsKeptRounded(const Value* weights, const std::string& precision);

// Declares the array for `rows_per_block` rows, a named constant (none for one row); with a
// `place`, in bytes, in the memory that is given at launch.
void DeclareKeptRows(KernelBuilder& builder, const Value* value, const CExpr& rows_per_block,
                     std::optional<int64_t> place, RegionLowering::KeptRows& kept);

// Shared memory that a row of it takes, or all of what is kept for all rows.
int64_t KeptBytes(const Value* value, const RegionLowering::KeptRows& kept);

// Shared memory that one row takes, with gaps that keep vectors together.
int64_t KeptBytesWithGaps(const Node& region, ArrayRef<BlockStage> stages, ShapeRef rows);

// The products of matrices that a block keeps for each of its `rows_per_block` rows (a named
// constant, of which "rows_here" are there; none for one row) by others, or by weights that it
// keeps for all, by its warps (kept_product.cuh); those of f32 are as `precision` says.
void PlanKeptProduct(const Node& product, const RegionLowering::KeptRows& left,
                     const RegionLowering::KeptRows& right, const RegionLowering::KeptRows& sums,
                     const CExpr& rows_per_block, const std::string& precision,
                     KernelBuilder& builder);

}  // namespace fusec
