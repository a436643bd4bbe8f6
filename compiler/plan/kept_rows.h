#pragma once

#include <optional>

#include "compiler/kernel/region_lowering.h"
#include "compiler/region/block_stages.h"
#include "compiler/support/adt.h"

namespace fusec {

// The number of elements of a value that 16 bytes of shared memory hold. 16-bit floats are kept as
// floats.
int64_t KeptLanes(const Value* value);

// How a block keeps a value of its rows in shared memory. If threads read different runs at once
// and runs began at multiples of 8 words, the accesses would conflict in few banks. So a gap
// follows each run: one vector if `vector_gaps`, so that runs can still be read in vectors, else
// one element. If `is_matrix`, the value is an operand or result of tensor cores, whose lines must
// stay contiguous.
RegionLowering::KeptRows PlaceKeptRows(const Node& region, const Value* value, ShapeRef rows,
                                       bool vector_gaps, bool is_matrix);
// Whether tensor cores read or compute `value`.
bool IsMatrixOfTensorCores(ArrayRef<BlockStage> stages, const Value* value);

// Whether a value of the region is a constant matrix, an operand of a product, whose rows are whole
// vectors. A block may keep one copy of it for all of its rows, in the layout of memory except for
// the gaps.
bool IsKeepableWeights(const Node& region, const Value* value);
// Whether in all products that read the weights, their rows run along the depth.
bool IsReadAlongDepth(const Node& region, const Value* weights);
RegionLowering::KeptRows PlaceKeptWeights(const Node& region, const Value* weights);
// Writes code that starts asynchronous copies of the weights from `buffer`, a parameter. `lanes`
// names the number of elements of a vector.
void CopyKeptWeights(KernelBuilder& builder, const Value* weights, const CExpr& buffer,
                     const RegionLowering::KeptRows& kept, const CExpr& lanes);

// Whether the weights of a product on tensor cores are stored rounded to TF32
// (WeightLayout::kTf32).
bool IsKeptRounded(const Value* weights, const std::string& precision);

// Declares the array for `rows_per_block` rows (a named constant; empty for one row). If there is a
// `place`, it is an offset in bytes into the dynamic shared memory.
void DeclareKeptRows(KernelBuilder& builder, const Value* value, const CExpr& rows_per_block,
                     std::optional<int64_t> place, RegionLowering::KeptRows& kept);

// The bytes of shared memory that one row of a kept value takes, or the whole value if it is kept
// once for all rows.
int64_t KeptBytes(const Value* value, const RegionLowering::KeptRows& kept);

// The bytes of shared memory that one row of all stages takes, with gaps of whole vectors.
int64_t KeptBytesWithGaps(const Node& region, ArrayRef<BlockStage> stages, ShapeRef rows);

// Writes the products of matrices that a block keeps for each of its rows by other kept matrices,
// or by weights that are kept once for all rows. The warps of the block compute them
// (kept_product.cuh). `rows_per_block` is a named constant, and the local rows_here says how many
// of these rows exist; it is empty for one row. `precision` is that of f32 products.
void PlanKeptProduct(const Node& product, const RegionLowering::KeptRows& left,
                     const RegionLowering::KeptRows& right, const RegionLowering::KeptRows& sums,
                     const CExpr& rows_per_block, const std::string& precision,
                     KernelBuilder& builder);

}  // namespace fusec
