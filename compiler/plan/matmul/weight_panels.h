#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/kernel/kernel_plan.h"
#include "compiler/region/product.h"

namespace fusec {

// Weights in panels, the layout that warpgroup tiles read (matmul_warpgroup.cuh). A panel holds 128
// bytes of each of 64 consecutive rows of a matrix [.., n, k], in the order of PanelRows
// (warpgroup.cuh). The panel with the next 128 bytes of these rows follows it; after the last one,
// the panels of the next 64 rows follow. Rows and the matrix are padded with zeros to whole panels.
//
// In kSplitHalfPanels, each number of a row is split into two halves: unit (high + low / 2048)
// (split_half.cuh). Each row has one unit, a power of two. A panel holds the `high` of 64 numbers
// of each row, and the next panel their `low`; each 16 halves are in the order of PlaceOfHalf. The
// panels of 64 rows are followed by the 64 units of the rows, as floats.
//
// In kFloat8Panels, each number is unit x, where x is fp8 (E4M3), and a panel holds 128 numbers of
// each row. The units are stored as in kSplitHalfPanels. Weights that the pass float8-products has
// rounded are represented exactly.

inline constexpr WeightLayout kWeightLayouts[] = {
    WeightLayout::kPlain,           WeightLayout::kTf32,
    WeightLayout::kPanels,          WeightLayout::kTf32Panels,
    WeightLayout::kSplitHalfPanels, WeightLayout::kFloat8Panels};

// The suffix of the names of tensors that an artifact stores in this layout: "", ".panels", ...
const char* LayoutSuffix(WeightLayout layout);

// The layout of the weights of a warpgroup tile with this arithmetic.
WeightLayout PanelLayout(Arithmetic arithmetic);

// The number of elements in panels for a row of `k` elements, padding included.
int64_t PanelDepth(int64_t k, Dtype dtype, WeightLayout layout);
// The number of elements in panels for a matrix of n x k, padding included.
int64_t PanelElements(int64_t n, int64_t k, Dtype dtype, WeightLayout layout);

// The panels of `weights`, [.., n, k] of f32, f16 or bf16.
TensorData MakePanels(const TensorData& weights, WeightLayout layout);

// The bytes of `weights` in any layout but kPlain. In kTf32, numbers that cannot be rounded to 11
// bits stay unchanged: infinities, and magnitudes above 2^114.
TensorData InLayout(const TensorData& weights, WeightLayout layout);

// The inverse of InLayout: weights of `dims` from their `stored` bytes. Numbers that the layout has
// rounded (to TF32, to two halves or to fp8) stay rounded. nullopt if the number of bytes is wrong.
std::optional<TensorData> FromLayout(Dtype dtype, const std::vector<int64_t>& dims,
                                     std::span<const std::byte> stored, WeightLayout layout);

}  // namespace fusec
