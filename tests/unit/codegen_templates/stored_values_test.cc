// Compares the device functions that encode and decode stored numbers, run on the CPU, with those of the interpreter.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "codegen_templates/host/cuda_on_cpu.h"
#include "compiler/ir/dtype.h"

namespace fusec_kernels {
#include "codegen_templates/device/float8.cuh"
#include "codegen_templates/device/int4.cuh"
}  // namespace fusec_kernels

namespace fusec {
namespace {

TEST(StoredValues, EveryE4M3IsDecoded) {
  for (int bits = 0; bits < 256; ++bits) {
    const double expected = E4M3ToDouble(static_cast<uint8_t>(bits));
    const float found = fusec_kernels::FromE4M3(static_cast<unsigned char>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found)) << bits;
    } else {
      EXPECT_EQ(found, expected) << bits;
      EXPECT_EQ(std::signbit(found), std::signbit(expected)) << bits;
    }
  }
}

TEST(StoredValues, NumbersAreRoundedToE4M3) {
  std::vector<float> numbers = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 448.0f, 447.9f, 464.0f, 480.0f, 1e30f, 0x1p-10f, 0x1p-149f, -3e-39f};
  // All codes, the numbers halfway between two codes, and the numbers next to these.
  for (int bits = 0; bits < 0x7e; ++bits) {
    const auto code = static_cast<float>(E4M3ToDouble(static_cast<uint8_t>(bits)));
    const auto next = static_cast<float>(E4M3ToDouble(static_cast<uint8_t>(bits + 1)));
    for (const float number : {code, (code + next) / 2}) {
      for (const float beside : {number, std::nextafter(number, -1e9f), std::nextafter(number, 1e9f)}) {
        numbers.push_back(beside);
        numbers.push_back(-beside);
      }
    }
  }
  for (const float number : numbers) {
    const unsigned found = fusec_kernels::ToE4M3(number), expected = DoubleToE4M3(number);
    EXPECT_EQ(std::isnan(number) ? found & 0x7fu : found, std::isnan(number) ? 0x7fu : expected) << number;
  }
}

TEST(StoredValues, TheGreatestIs128To256TimesItsFactor) {
  for (int exponent = -149; exponent < 128; ++exponent) {
    for (const float greatest : {std::ldexp(1.0f, exponent), std::nextafter(std::ldexp(1.0f, exponent), INFINITY)}) {
      const float factor = fusec_kernels::Float8Factor(greatest);
      EXPECT_TRUE(std::isnormal(factor) && std::isnormal(1 / factor)) << greatest;
      EXPECT_LT(greatest * factor, 256) << greatest;
      EXPECT_GE(greatest * factor, exponent >= -119 ? 128 : 0) << greatest;
    }
  }
  EXPECT_TRUE(std::isnormal(fusec_kernels::Float8Factor(0)));
  EXPECT_TRUE(std::isnan(fusec_kernels::Float8Factor(INFINITY)));
  EXPECT_TRUE(std::isnan(fusec_kernels::Float8Factor(NAN)));
}

TEST(StoredValues, EveryByteHoldsTwoIntegers) {
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(fusec_kernels::Int4At(static_cast<unsigned char>(byte), 6), byte % 16);
    EXPECT_EQ(fusec_kernels::Int4At(static_cast<unsigned char>(byte), 7), byte / 16);
  }
}

}  // namespace
}  // namespace fusec
