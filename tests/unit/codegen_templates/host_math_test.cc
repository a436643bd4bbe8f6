// Compares the polynomials of the CPU's header with double precision. The comments of the header give the largest errors over all floats;
// this test takes every 4099th float and the special values, and allows 0.1 units more for the machine's own double functions.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "codegen_templates/host/cuda_on_cpu.h"

namespace fusec {
namespace {

// The error in units in the last place of the exact result, rounded to f32.
double ErrorInUnits(float actual, double exact) {
  const float rounded = static_cast<float>(exact);
  if (std::isnan(rounded)) return std::isnan(actual) ? 0 : HUGE_VAL;
  if (actual == rounded) return std::signbit(actual) == std::signbit(rounded) ? 0 : HUGE_VAL;
  if (!std::isfinite(actual)) return std::fabs(exact) > 3.4028233e38 ? 0 : HUGE_VAL;
  if (std::isinf(rounded)) return std::fabs(actual) > 3.4028233e38f ? 0 : HUGE_VAL;
  const int exponent = std::max(std::ilogb(rounded) - 23, -149);
  return std::fabs(actual - exact) / std::ldexp(1.0, exponent);
}

template <class Approximation, class Exact>
void ExpectWithin(double bound, Approximation approximation, Exact exact) {
  double worst = 0;
  float worst_at = 0;
  auto check = [&](float x) {
    const double error = ErrorInUnits(approximation(x), exact(static_cast<double>(x)));
    if (error > worst) worst = error, worst_at = x;
  };
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4099) {
    check(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  using Limits = std::numeric_limits<float>;
  for (const float x : {0.0f, 1.0f, Limits::infinity(), Limits::quiet_NaN(), Limits::max(),
                        Limits::min(), Limits::denorm_min()}) {
    check(x);
    check(-x);
  }
  EXPECT_LE(worst, bound + 0.1) << "at " << worst_at;
}

TEST(HostMathTest, ErrorsStayWithinTheirBounds) {
  ExpectWithin(1.01, fusec_kernels::expf, [](double x) { return std::exp(x); });
  ExpectWithin(1.46, fusec_kernels::expm1f, [](double x) { return std::expm1(x); });
  ExpectWithin(2.61, fusec_kernels::tanhf, [](double x) { return std::tanh(x); });
  ExpectWithin(1.23, fusec_kernels::erff, [](double x) { return std::erf(x); });
  ExpectWithin(0.87, fusec_kernels::logf, [](double x) { return std::log(x); });
  ExpectWithin(1.44, fusec_kernels::log1pf, [](double x) { return std::log1p(x); });
}

TEST(HostMathTest, HalfConversionsMatchTheCompilers) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const _Float16 half = std::bit_cast<_Float16>(static_cast<uint16_t>(bits));
    const float x = fusec_kernels::HalfBitsToFloat(static_cast<uint16_t>(bits));
    if (half != half) EXPECT_TRUE(std::isnan(x)) << bits;
    else EXPECT_EQ(x, static_cast<float>(half)) << bits;
  }
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4099) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    const uint16_t half = fusec_kernels::FloatToHalfBits(x);
    if (x != x) EXPECT_EQ(half & 0x7fff, 0x7e00) << bits;
    else EXPECT_EQ(half, std::bit_cast<uint16_t>(static_cast<_Float16>(x))) << bits;
  }
}

TEST(HostMathTest, BFloat16RoundsToEven) {
  EXPECT_EQ(fusec_kernels::FloatToBFloat16Bits(257.0f), 0x4380);
  EXPECT_EQ(fusec_kernels::FloatToBFloat16Bits(259.0f), 0x4382);
  EXPECT_EQ(fusec_kernels::FloatToBFloat16Bits(3.4028235e38f), 0x7f80);
  EXPECT_EQ(fusec_kernels::FloatToBFloat16Bits(-HUGE_VALF), 0xff80);
  EXPECT_EQ(fusec_kernels::FloatToBFloat16Bits(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
}

}  // namespace
}  // namespace fusec
