#include "compiler/plan/matmul/weight_panels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fusec {
namespace {

// The position of element (row, column) of a matrix with `k` floats per row.
int64_t Place(int64_t row, int64_t column, int64_t k) {
  const int64_t across = (k + 31) / 32;
  const int64_t panel = row / 64 * across + column / 32;
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
    const double found = panels.GetDouble(Place(i / kK, i % kK, kK));
    EXPECT_EQ(found, weights.GetDouble(i));
    left -= std::abs(found);
  }
  EXPECT_NEAR(left, 0, 1e-9);
}

TEST(WeightPanels, RoundToElevenBits) {
  const TensorData weights = Weights(64, 40);
  const TensorData rounded = MakePanels(weights, WeightLayout::kTf32Panels);
  for (int64_t i = 0; i < 64 * 40; ++i) {
    const double exact = weights.GetDouble(i);
    const double high = rounded.GetDouble(Place(i / 40, i % 40, 40));
    EXPECT_EQ(std::remainder(high, std::ldexp(1.0, std::ilogb(exact) - 10)), 0);
    // Just below powers of two, the error of Dekker's split is up to a whole unit in the last place.
    EXPECT_LE(std::abs(high - exact), std::ldexp(1.0, std::ilogb(exact) - 10));
  }
}

TEST(WeightPanels, SplitHalvesStandWhereTheKernelLooks) {
  constexpr int64_t kN = 70, kK = 90;
  const TensorData panels = MakePanels(Weights(kN, kK), WeightLayout::kSplitHalfPanels);
  ASSERT_EQ(panels.element_count(), 128 * (2 * 64 + 1));
  const auto* halves = reinterpret_cast<const uint16_t*>(panels.bytes());
  for (int64_t i = 0; i < kN * kK; ++i) {
    const int64_t row = i / kK, column = i % kK, number = column % 16;
    // Of 16 floats, thread t of four holds those at t, t + 4, t + 8 and t + 12 (mma.sync for floats); of the 8 words of 16 halves it holds
    // words t and t + 4 (mma.sync for halves).
    const int64_t word = number % 4 + number / 8 * 4, half = word * 2 + number % 8 / 4;
    const int64_t in_row = column % 64 / 16 * 16 + half;
    const int64_t group = row / 64 * 64 * 2 * (2 * 64 + 1);
    const int64_t high =
        group + column / 64 * 2 * 64 * 64 + row % 64 * 64 + (in_row / 8 ^ row % 8) * 8 + in_row % 8;
    const double unit = panels.GetDouble((group + 2 * 2 * 64 * 64) / 2 + row % 64);
    ASSERT_EQ(std::ldexp(1.0, std::ilogb(unit)), unit);
    const double exact = static_cast<float>(std::sin(static_cast<double>(i)));
    const double x = HalfToDouble(halves[high]), rest = HalfToDouble(halves[high + 64 * 64]);
    EXPECT_LE(std::abs(x), 32768);
    EXPECT_LE(std::abs(x * unit - exact), std::ldexp(1.0, std::ilogb(exact) - 11));
    EXPECT_LE(std::abs((x + rest / 2048) * unit - exact), std::ldexp(1.0, std::ilogb(exact) - 22));
  }
}

// Both halves are the nearest ones, as by conversion from double, also if they are subnormal or not finite.
TEST(WeightPanels, SplitHalvesAreTheNearest) {
  constexpr int64_t kN = 64, kK = 64;
  TensorData weights(Dtype::kF32, {kN, kK});
  uint32_t bits = 1;
  for (int64_t i = 0; i < kN * kK; ++i) {
    bits = bits * 1664525 + 1013904223;
    const double x = static_cast<int32_t>(bits) * std::ldexp(1.0, -static_cast<int>(i % 60) - 1);
    weights.SetDouble(i, i % kK == 0 ? 0x1p31 : x);
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  weights.SetDouble(kK + 5, kInfinity);
  weights.SetDouble(kK + 6, -kInfinity);
  weights.SetDouble(2 * kK + 7, std::numeric_limits<double>::quiet_NaN());
  const TensorData panels = MakePanels(weights, WeightLayout::kSplitHalfPanels);
  const auto* halves = reinterpret_cast<const uint16_t*>(panels.bytes());
  for (int64_t i = 0; i < kN * kK; ++i) {
    const int64_t row = i / kK, column = i % kK, number = column % 16;
    const int64_t in_row = column / 16 * 16 + (number % 4 + number / 8 * 4) * 2 + number % 8 / 4;
    const int64_t high = row * 64 + (in_row / 8 ^ row % 8) * 8 + in_row % 8;
    const double x = weights.GetDouble(i) / panels.GetDouble((2 * 64 * 64) / 2 + row);
    EXPECT_EQ(halves[high], DoubleToHalf(x)) << x;
    EXPECT_EQ(halves[high + 64 * 64], DoubleToHalf((x - HalfToDouble(DoubleToHalf(x))) * 2048)) << x;
  }
}

TEST(WeightPanels, SplitHalvesHoldNumbersOfAnySize) {
  TensorData weights(Dtype::kF32, {64, 3});
  for (int64_t row = 0; row < 64; ++row) {
    const double greatest = std::ldexp(1.7, static_cast<int>(row) * 4 - 126);
    weights.SetDouble(3 * row, greatest);
    weights.SetDouble(3 * row + 1, -greatest * 0x1.234568p-28);
  }
  const TensorData panels = MakePanels(weights, WeightLayout::kSplitHalfPanels);
  const std::span<const std::byte> bytes(panels.bytes(), static_cast<size_t>(panels.byte_count()));
  const auto back = FromLayout(Dtype::kF32, weights.dims(), bytes, WeightLayout::kSplitHalfPanels);
  for (int64_t row = 0; row < 64; ++row) {
    const double greatest = weights.GetDouble(3 * row), small = weights.GetDouble(3 * row + 1);
    EXPECT_NEAR(back->GetDouble(3 * row), greatest, greatest * 0x1p-22) << row;
    EXPECT_NEAR(back->GetDouble(3 * row + 1), small, std::max(greatest * 0x1p-50, 0x1p-149)) << row;
    EXPECT_EQ(back->GetDouble(3 * row + 2), 0);
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
                                    WeightLayout::kTf32Panels, WeightLayout::kSplitHalfPanels}) {
    const TensorData made = InLayout(weights, layout);
    const std::span<const std::byte> bytes(made.bytes(), static_cast<size_t>(made.byte_count()));
    const auto back = FromLayout(Dtype::kF32, weights.dims(), bytes, layout);
    ASSERT_TRUE(back.has_value());
    const int bits = layout == WeightLayout::kPanels            ? 24
                     : layout == WeightLayout::kSplitHalfPanels ? 22
                                                                : 10;
    for (int64_t i = 0; i < weights.element_count(); ++i) {
      const double exact = weights.GetDouble(i);
      EXPECT_LE(std::abs(back->GetDouble(i) - exact), std::ldexp(1.0, std::ilogb(exact) - bits));
    }
    EXPECT_FALSE(
        FromLayout(Dtype::kF32, weights.dims(), bytes.first(bytes.size() - 4), layout).has_value());
  }
}

// Numbers that are an E4M3 number times a power of two of their row are not changed.
TEST(WeightPanels, HoldRowsInFloat8) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBF16}) {
    constexpr int64_t kN = 67, kK = 300;
    TensorData weights(dtype, {kN, kK});
    for (int64_t i = 0; i < kN * kK; ++i) {
      const double code = E4M3ToDouble(static_cast<uint8_t>(i * 7 % 0x78));
      weights.SetDouble(i, std::ldexp(i % 3 == 0 ? -code : code, static_cast<int>(i / kK % 5) - 6));
    }
    const TensorData panels = MakePanels(weights, WeightLayout::kFloat8Panels);
    EXPECT_EQ(panels.byte_count(), 2 * 64 * (3 * 128 + 4));
    const std::span<const std::byte> bytes(panels.bytes(), static_cast<size_t>(panels.byte_count()));
    const auto back = FromLayout(dtype, weights.dims(), bytes, WeightLayout::kFloat8Panels);
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->Hash(), weights.Hash()) << DtypeName(dtype);
  }
}

TEST(WeightPanels, MakeNaNOfInfinities) {
  TensorData weights(Dtype::kF32, {64, 32});
  weights.SetDouble(0, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(MakePanels(weights, WeightLayout::kTf32Panels).GetDouble(0)));
  const TensorData split = MakePanels(weights, WeightLayout::kSplitHalfPanels);
  const auto* halves = reinterpret_cast<const uint16_t*>(split.bytes());
  EXPECT_TRUE(std::isinf(HalfToDouble(halves[0])));
  EXPECT_TRUE(std::isnan(HalfToDouble(halves[64 * 64])));
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
