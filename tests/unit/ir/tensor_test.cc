#include "compiler/ir/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace fusec {
namespace {

TEST(Tensor, TypePrints) {
  const TensorType type{Dtype::kF32, {Expr::Symbol("batch"), Expr(13)}};
  EXPECT_EQ(type.ToString(), "f32[batch, 13]");
  EXPECT_EQ((TensorType{Dtype::kBool, {}}).ToString(), "bool[]");
  EXPECT_EQ(StaticShape(type.shape), std::nullopt);
  EXPECT_EQ(StaticShape({Expr(2), Expr(0)}), (std::vector<int64_t>{2, 0}));
}

TEST(Tensor, IntegersSaturateFromDoublesAndWrapFromIntegers) {
  TensorData i8(Dtype::kI8, {3});
  i8.SetDouble(0, 300.0);
  i8.SetDouble(1, -1e30);
  i8.SetInt(2, 300);
  EXPECT_EQ(i8.GetInt(0), 127);
  EXPECT_EQ(i8.GetInt(1), -128);
  EXPECT_EQ(i8.GetInt(2), 44);

  TensorData i64(Dtype::kI64, {2});
  i64.SetDouble(0, 1e300);
  i64.SetDouble(1, std::nan(""));
  EXPECT_EQ(i64.GetInt(0), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(i64.GetInt(1), 0);

  TensorData u64(Dtype::kU64, {2});
  u64.SetInt(0, -1);
  u64.SetDouble(1, -2.0);
  EXPECT_EQ(u64.GetInt(0), -1);
  EXPECT_EQ(u64.GetDouble(0), 18446744073709551616.0);
  EXPECT_EQ(u64.GetInt(1), 0);

  const TensorData truth = TensorData::From<double>(Dtype::kBool, {2}, {0.5, 0.0});
  EXPECT_EQ(truth.GetInt(0), 1);
  EXPECT_EQ(truth.GetInt(1), 0);
}

TEST(Tensor, FloatsRoundOnceToTheirWidth) {
  const TensorData f16 = TensorData::From<double>(Dtype::kF16, {2}, {65504.0, 1e-8});
  EXPECT_EQ(f16.GetDouble(0), 65504.0);
  EXPECT_EQ(f16.GetDouble(1), 0.0);
  TensorData f32(Dtype::kF32, {1});
  f32.SetInt(0, (int64_t{1} << 53) + (int64_t{1} << 29) + 1);  // above a midpoint only by the 1
  EXPECT_EQ(f32.GetDouble(0), 9007200328482816.0);
}

TEST(Tensor, HashSeesTypeDimsAndBytes) {
  const TensorData zeros(Dtype::kF32, {2, 3});
  EXPECT_EQ(zeros.Hash().size(), 32u);
  EXPECT_EQ(zeros.Hash(), TensorData(Dtype::kF32, {2, 3}).Hash());
  EXPECT_NE(zeros.Hash(), TensorData(Dtype::kF32, {3, 2}).Hash());
  EXPECT_NE(zeros.Hash(), TensorData(Dtype::kI32, {2, 3}).Hash());
  TensorData other(Dtype::kF32, {2, 3});
  other.SetDouble(5, -0.0);
  EXPECT_NE(zeros.Hash(), other.Hash());
  EXPECT_EQ(TensorData(Dtype::kF32, {0}).Hash(), TensorData(Dtype::kF32, {0}).Hash());
}

TEST(Tensor, ViewsNeedNoAlignment) {
  auto buffer = std::make_shared<std::vector<std::byte>>(9);
  const double value = 1.5;
  std::memcpy(buffer->data() + 1, &value, sizeof(value));
  const std::byte* bytes = buffer->data() + 1;
  EXPECT_EQ(TensorData(Dtype::kF64, {1}, std::move(buffer), bytes).GetDouble(0), 1.5);
  EXPECT_NE(TensorData(Dtype::kF64, {0}, nullptr, nullptr).bytes(), nullptr);
}

}  // namespace
}  // namespace fusec
