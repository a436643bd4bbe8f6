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
  kHalf,         // f16 and bf16
  kFloat8,       // what float8-products has rounded to E4M3
  kShortFloat8,  // the same of short sums, which tensor cores add up
};
inline bool IsFloat8(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kFloat8 || arithmetic == Arithmetic::kShortFloat8;
}
// Of all products of a type but those in fp8. `precision` is PlanOptions::matmul_precision.
Arithmetic ArithmeticOf(Dtype dtype, const std::string& precision);

// Whether a product of such numbers takes three of shorter ones (Arithmetic::kSplit).
bool IsSplit(Dtype dtype, const std::string& precision);

// The left operand of a product that is made of E4M3 codes alone: from_e4m3(codes) / factors, with
// a factor for each row, a power of two. A cast to the product's type may follow.
struct Float8Rows {
  const Value* codes;
  const Value* factors;
};
// nullopt for other products.
std::optional<Float8Rows> FindFloat8Rows(const Node& matmul);

// A product of known weights' shape that kernels of ours may make: x [.., m, k] by weights [n, k],
// or x [s, m, k] or [m, k] by weights [s, n, k] of up to kMostMatrices s.
struct ProductShape {
  int64_t matrices, n, k;
};
// nullopt for other nodes.
std::optional<ProductShape> FindProductShape(const Node& node);

}  // namespace fusec
