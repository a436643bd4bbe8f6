#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ir/graph.h"

namespace fusec {

// Properties of matrix products that both passes and planners use.

// The most products of a batch, each with its own matrices, that one kernel launch computes.
inline constexpr int64_t kMostMatrices = 128;

// Sums of so few terms are mostly computed by one thread per element (policy.h).
inline constexpr int64_t kTinySum = 16;

// With so few columns, most of a tile of the warpgroup kernels or of the library is idle.
inline constexpr int64_t kNarrowColumns = 32;

// Attribute of a region with a product whose body dequantizes the right operand: the number of the
// region's operand that holds the dequantized matrix, which the body does not read (the pass
// fuse-dequantization).
inline constexpr const char* kDense = "dense";

// The dtype of a product's factors, in which kernels multiply. The product itself may be wider
// (passes/exact_half_products.h).
Dtype FactorDtype(const Node& matmul);

// How tensor cores multiply numbers of a dtype.
enum class Arithmetic {
  kSplit,  // f32 as three products of shorter floats, with f32 accuracy
  kTf32,
  kHalf,         // f16 and bf16
  kFloat8,       // operands that the pass float8-products rounded to E4M3
  kShortFloat8,  // the same with short sums, which tensor cores accumulate
};
inline bool IsFloat8(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kFloat8 || arithmetic == Arithmetic::kShortFloat8;
}
// The arithmetic of products of `dtype`, except those in fp8. `precision` is
// PlanOptions::matmul_precision.
Arithmetic ArithmeticOf(Dtype dtype, const std::string& precision);

// Whether such a product is computed as three products of shorter floats (Arithmetic::kSplit).
bool IsSplit(Dtype dtype, const std::string& precision);

// The left operand of a product if it is decoded from E4M3 codes: from_e4m3(codes) / factors, with
// one factor per row, a power of two. It may be followed by a cast to the product's dtype.
struct Float8Rows {
  const Value* codes;
  const Value* factors;
};
// nullopt if the left operand is not of that form.
std::optional<Float8Rows> FindFloat8Rows(const Node& matmul);

// The nodes that `value` depends on, in the graph that it belongs to. None for null.
NodeSet NodesBehind(const Value* value);

// Whether `value` is computed from packed 4-bit codes (unpack_int4).
bool IsMadeOfCodes(const Value* value);

// The operand that kDense names; null if the region has none.
const Value* DenseOperand(const Node& region);

// The inputs of a region's body that the right operand of its product is computed from (kDense).
ValueSet PackedInputs(const Node& region);

// A product whose columns are those of two products, interleaved: kPairedColumns of the first are
// followed by as many of the second, and so on. The kernel that computes it also combines each
// column of the first with the column of the second that has the same number
// (fuse-paired-products), so that the result has half the product's columns.
inline constexpr int64_t kPairedColumns = 4;
// Whether a region has such a product.
bool IsPaired(const Node& region);

// The shape of a product that fusec's own kernels can compute: x [.., m, k] by weights [n, k], or x
// [s, m, k] or [m, k] by weights [s, n, k] with s <= kMostMatrices. The weights have constant dims.
struct ProductShape {
  int64_t matrices, n, k;
};
// nullopt for other nodes.
std::optional<ProductShape> FindProductShape(const Node& node);

}  // namespace fusec
