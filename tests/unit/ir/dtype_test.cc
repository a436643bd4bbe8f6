#include "compiler/ir/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fusec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Dtype, NamesReadBack) {
  for (int i = 0; i < kDtypeCount; ++i) {
    const Dtype dtype = static_cast<Dtype>(i);
    EXPECT_EQ(ParseDtype(DtypeName(dtype)), dtype);
    EXPECT_EQ(IsFloat(dtype) + IsInteger(dtype) + (dtype == Dtype::kBool), 1);
  }
  EXPECT_EQ(ParseDtype("f8"), std::nullopt);
}

TEST(Dtype, EveryHalfAndBFloat16ReadsBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    if (!std::isnan(HalfToDouble(half))) {
      EXPECT_EQ(DoubleToHalf(HalfToDouble(half)), half);
    }
    if (!std::isnan(BFloat16ToDouble(half))) {
      EXPECT_EQ(DoubleToBFloat16(BFloat16ToDouble(half)), half);
    }
  }
}

// Between every two neighboring numbers: numbers below the midpoint round down, above it up, and the midpoint rounds to even.
TEST(Dtype, HalvesRoundToNearestEven) {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = HalfToDouble(bits);
    const double high = HalfToDouble(static_cast<uint16_t>(bits + 1));
    const double middle = (low + high) / 2;
    const uint16_t even = static_cast<uint16_t>(bits + (bits & 1));
    EXPECT_EQ(DoubleToHalf(middle), even);
    EXPECT_EQ(DoubleToHalf(std::nextafter(middle, -kInfinity)), bits);
    EXPECT_EQ(DoubleToHalf(std::nextafter(middle, kInfinity)), bits + 1);
    EXPECT_EQ(DoubleToHalf(-middle), even | 0x8000);
  }
}

TEST(Dtype, HalfLimits) {
  EXPECT_EQ(DoubleToHalf(65504), 0x7bff);
  EXPECT_EQ(DoubleToHalf(65519.99), 0x7bff);
  EXPECT_EQ(DoubleToHalf(65520), 0x7c00);
  EXPECT_EQ(DoubleToHalf(-kInfinity), 0xfc00);
  EXPECT_EQ(DoubleToHalf(-0.0), 0x8000);
  EXPECT_EQ(DoubleToHalf(std::ldexp(1, -25)), 0);  // half of the smallest subnormal: to even
  EXPECT_EQ(DoubleToHalf(std::ldexp(1.5, -25)), 1);
  EXPECT_EQ(DoubleToHalf(5e-324), 0);
  EXPECT_TRUE(std::isnan(HalfToDouble(DoubleToHalf(kNaN))));
  EXPECT_EQ(HalfToDouble(1), std::ldexp(1, -24));
}

TEST(Dtype, BFloat16Limits) {
  EXPECT_EQ(DoubleToBFloat16(1.0), 0x3f80);
  EXPECT_EQ(DoubleToBFloat16(1.00390625), 0x3f80);  // midpoint, to even
  EXPECT_EQ(DoubleToBFloat16(1.01171875), 0x3f82);  // midpoint, to even
  EXPECT_EQ(DoubleToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(DoubleToBFloat16(std::ldexp(1, -133)), 1);
  EXPECT_TRUE(std::isnan(BFloat16ToDouble(DoubleToBFloat16(-kNaN))));
}

TEST(Dtype, E4M3RoundsToTheNearest) {
  EXPECT_EQ(E4M3ToDouble(0x38), 1);
  EXPECT_EQ(E4M3ToDouble(0x7e), 448);
  EXPECT_EQ(E4M3ToDouble(0x81), -std::ldexp(1, -9));
  EXPECT_TRUE(std::isnan(E4M3ToDouble(0x7f)));
  for (int bits = 0; bits < 0x7e; ++bits) {  // between neighbours, ties to even
    const double low = E4M3ToDouble(static_cast<uint8_t>(bits));
    const double high = E4M3ToDouble(static_cast<uint8_t>(bits + 1));
    const double middle = (low + high) / 2;
    EXPECT_EQ(DoubleToE4M3(low), bits);
    EXPECT_EQ(DoubleToE4M3(std::nextafter(middle, 0)), bits);
    EXPECT_EQ(DoubleToE4M3(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(DoubleToE4M3(-std::nextafter(middle, kInfinity)), (bits + 1) | 0x80);
  }
  EXPECT_EQ(DoubleToE4M3(1e300), 0x7e);
  EXPECT_EQ(DoubleToE4M3(-kInfinity), 0xfe);
  EXPECT_EQ(DoubleToE4M3(-0.0), 0x80);
  EXPECT_EQ(DoubleToE4M3(5e-324), 0);
  EXPECT_EQ(DoubleToE4M3(kNaN), 0x7f);
}

}  // namespace
}  // namespace fusec
