#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ir/graph.h"

namespace fusec {

// What passes and planners both ask of matrix products.

// Products of a batch, each of matrices of its own, that one launch makes.
inline constexpr int64_t kMostMatrices = 128;

// So few columns leave the better part of a tile by warpgroups, or of the library, without work.
inline constexpr int64_t kNarrowColumns = 32;

// How tensor cores multiply numbers of a type.
enum class Arithmetic {
  kSplit,  // f32 as three products of shorter numbers, as exact as f32
  kTf32,
  kHalf,  // f16 and bf16
};
// `precision` is that of f32 (PlanOptions::matmul_precision).
Arithmetic ArithmeticOf(Dtype dtype, const std::string& precision);

// Whether a product of such numbers takes three of shorter ones (Arithmetic::kSplit).
bool IsSplit(Dtype dtype, const std::string& precision);

// A product of known weights' shape that kernels of ours may make: x [.., m, k] by weights [n, k],
// or x [s, m, k] or [m, k] by weights [s, n, k] of up to kMostMatrices s.
struct ProductShape {
  int64_t matrices, n, k;
};
// nullopt for other nodes.
std::optional<ProductShape> FindProductShape(const Node& node);

}  // namespace fusec
