#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/kernel/kernel_plan.h"
#include "compiler/region/product.h"

namespace fusec {

// Weights in panels, as tiles by warpgroups read them (matmul_warpgroup.cuh). A panel holds 64
// neighbouring rows of a matrix [.., n, k], 128 bytes of each, in the order that PanelRows says
// (warpgroup.cuh). It is followed by the panel of the next 128 bytes, and at the rows' end by the
// next rows. Behind a row's end and the last row stand zeros.
//
// Of kSplitHalfPanels each number of a row is unit (high + low / 2048) with two halves
// (split_half.cuh), and the row has one unit, a power of two. A panel holds 64 `high` of each row,
// and the one behind it their `low`, 16 in the order of PlaceOfHalf. At the rows' end stand their
// 64 units, floats.
//
// Of kFloat8Panels each number is unit x with x in fp8 (E4M3), and a panel holds 128 of each row.
// The units are as those of halves. Weights that float8-products has rounded are exactly that.

inline constexpr WeightLayout kWeightLayouts[] = {
    WeightLayout::kPlain,           WeightLayout::kTf32,
    WeightLayout::kPanels,          WeightLayout::kTf32Panels,
    WeightLayout::kSplitHalfPanels, WeightLayout::kFloat8Panels};

// What the names of tensors that lie so in an artifact end in: "", ".panels", ...
const char* LayoutSuffix(WeightLayout layout);

// How a tile by warpgroups wants weights that it multiplies so.
WeightLayout PanelLayout(Arithmetic arithmetic);

// Elements that panels have for a row of `k`.
int64_t PanelDepth(int64_t k, Dtype dtype, WeightLayout layout);
// Elements that panels have for a matrix.
int64_t PanelElements(int64_t n, int64_t k, Dtype dtype, WeightLayout layout);

// The panels of `weights`, [.., n, k] of f32, f16 or bf16.
TensorData MakePanels(const TensorData& weights, WeightLayout layout);

// `weights` as they lie in any layout but the plain one. Of kTf32 numbers that have no neighbour of
// 11 bits stay as they are: infinities, and those above 2^114.
TensorData InLayout(const TensorData& weights, WeightLayout layout);

// The weights of `dims` that lie in such a layout: as they were, or rounded to TF32 as they are
// there; of kSplitHalfPanels the sums of both parts, of kFloat8Panels in fp8. nullopt if there are
// more or fewer bytes.
std::optional<TensorData> FromLayout(Dtype dtype, const std::vector<int64_t>& dims,
                                     std::span<const std::byte> stored, WeightLayout layout);

}  // namespace fusec
