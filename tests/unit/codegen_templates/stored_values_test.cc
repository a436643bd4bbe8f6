// The device functions that decode stored rows, on the CPU, against the interpreter's.
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

TEST(StoredValues, EveryByteHoldsTwoIntegers) {
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(fusec_kernels::Int4At(static_cast<unsigned char>(byte), 6), byte % 16);
    EXPECT_EQ(fusec_kernels::Int4At(static_cast<unsigned char>(byte), 7), byte / 16);
  }
}

}  // namespace
}  // namespace fusec
