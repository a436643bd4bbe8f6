#include "compiler/plan/matmul/weight_panels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fusec {
namespace {

// Where part `part` of element (row, column) of a matrix of `k` floats per row stands.
int64_t Place(int64_t row, int64_t column, int64_t k, int64_t parts, int64_t part) {
  const int64_t across = (k + 31) / 32;
  const int64_t panel = (row / 64 * across + column / 32) * parts + part;
  const int64_t vector = column % 32 / 4 ^ row % 8;
  return (panel * 64 + row % 64) * 32 + vector * 4 + column % 4;
}

TensorData Weights(int64_t n, int64_t k) {
  TensorData weights(Dtype::kF32, {n, k});
  for (int64_t i = 0; i < n * k; ++i) weights.SetDouble(i, std::sin(static_cast<double>(i)));
  return weights;
}

TEST(WeightPanels, HoldEveryElementWhereTheKernelLooksAndZerosElsewhere) {
  constexpr int64_t kN = 70, kK = 45;
  const TensorData weights = Weights(kN, kK);
  const TensorData panels = MakePanels(weights, WeightLayout::kPanels);
  ASSERT_EQ(panels.element_count(), 128 * 64);
  EXPECT_EQ(panels.element_count(), PanelElements(kN, kK, Dtype::kF32, WeightLayout::kPanels));
  double left = 0;
  for (int64_t i = 0; i < panels.element_count(); ++i) left += std::abs(panels.GetDouble(i));
  for (int64_t i = 0; i < kN * kK; ++i) {
    const double found = panels.GetDouble(Place(i / kK, i % kK, kK, 1, 0));
    EXPECT_EQ(found, weights.GetDouble(i));
    left -= std::abs(found);
  }
  EXPECT_NEAR(left, 0, 1e-9);
}

TEST(WeightPanels, RoundToElevenBitsAndKeepWhatThatTakes) {
  const TensorData weights = Weights(64, 40);
  const TensorData rounded = MakePanels(weights, WeightLayout::kTf32Panels);
  const TensorData split = MakePanels(weights, WeightLayout::kSplitTf32Panels);
  ASSERT_EQ(split.element_count(), 2 * rounded.element_count());
  for (int64_t i = 0; i < 64 * 40; ++i) {
    const double exact = weights.GetDouble(i);
    const double high = split.GetDouble(Place(i / 40, i % 40, 40, 2, 0));
    const double low = split.GetDouble(Place(i / 40, i % 40, 40, 2, 1));
    EXPECT_EQ(rounded.GetDouble(Place(i / 40, i % 40, 40, 1, 0)), high);
    EXPECT_EQ(std::remainder(high, std::ldexp(1.0, std::ilogb(exact) - 10)), 0);
    // Below powers of two Dekker's split is off by up to a whole last place.
    EXPECT_LE(std::abs(high - exact), std::ldexp(1.0, std::ilogb(exact) - 10));
    EXPECT_LE(std::abs(high + low - exact), std::ldexp(1.0, std::ilogb(exact) - 21));
  }
}

TEST(WeightPanels, RoundedWeightsLieAsTheyDid) {
  TensorData weights = Weights(3, 5);
  weights.SetDouble(7, std::numeric_limits<double>::infinity());
  const std::string hash = weights.Hash();
  const TensorData rounded = InLayout(weights, WeightLayout::kTf32);
  ASSERT_EQ(rounded.dims(), weights.dims());
  EXPECT_EQ(weights.Hash(), hash);
  EXPECT_NE(rounded.Hash(), hash);
  for (int64_t i = 0; i < 15; ++i) {
    const double exact = weights.GetDouble(i);
    if (i == 7) {
      EXPECT_EQ(rounded.GetDouble(i), exact);
      continue;
    }
    EXPECT_EQ(std::remainder(rounded.GetDouble(i), std::ldexp(1.0, std::ilogb(exact) - 10)), 0);
    EXPECT_LE(std::abs(rounded.GetDouble(i) - exact), std::ldexp(1.0, std::ilogb(exact) - 10));
  }
}

TEST(WeightPanels, CanBeReadBack) {
  const TensorData weights = Weights(67, 41);
  for (const WeightLayout layout : {WeightLayout::kTf32, WeightLayout::kPanels,
                                    WeightLayout::kTf32Panels, WeightLayout::kSplitTf32Panels}) {
    const TensorData made = InLayout(weights, layout);
    const std::span<const std::byte> bytes(made.bytes(), static_cast<size_t>(made.byte_count()));
    const auto back = FromLayout(Dtype::kF32, weights.dims(), bytes, layout);
    ASSERT_TRUE(back.has_value());
    const int bits = layout == WeightLayout::kPanels            ? 24
                     : layout == WeightLayout::kSplitTf32Panels ? 21
                                                                : 10;
    for (int64_t i = 0; i < weights.element_count(); ++i) {
      const double exact = weights.GetDouble(i);
      EXPECT_LE(std::abs(back->GetDouble(i) - exact), std::ldexp(1.0, std::ilogb(exact) - bits));
    }
    EXPECT_FALSE(
        FromLayout(Dtype::kF32, weights.dims(), bytes.first(bytes.size() - 4), layout).has_value());
  }
}

TEST(WeightPanels, MakeNaNOfInfinities) {
  TensorData weights(Dtype::kF32, {64, 32});
  weights.SetDouble(0, std::numeric_limits<double>::infinity());
  const TensorData panels = MakePanels(weights, WeightLayout::kSplitTf32Panels);
  EXPECT_TRUE(std::isnan(panels.GetDouble(0)));
}

TEST(WeightPanels, ComeOneMatrixAfterAnother) {
  TensorData weights(Dtype::kF16, {3, 65, 70});
  for (int64_t i = 0; i < weights.element_count(); ++i) weights.SetDouble(i, i % 2039);
  const TensorData panels = MakePanels(weights, WeightLayout::kPanels);
  const int64_t elements = PanelElements(65, 70, Dtype::kF16, WeightLayout::kPanels);
  ASSERT_EQ(elements, 128 * 128);
  ASSERT_EQ(panels.element_count(), 3 * elements);
  for (int64_t matrix = 0; matrix < 3; ++matrix) {
    EXPECT_EQ(panels.GetDouble(matrix * elements), weights.GetDouble(matrix * 65 * 70));
  }
}

}  // namespace
}  // namespace fusec
