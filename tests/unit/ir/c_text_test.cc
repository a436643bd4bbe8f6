#include "compiler/ir/c_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fusec {
namespace {

TEST(CTextTest, FloatsAlwaysLookLikeFloats) {
  EXPECT_EQ(CLiteral(2, Dtype::kF32), "2.0f");
  EXPECT_EQ(CLiteral(0.1, Dtype::kF32), "0.1f");
  EXPECT_EQ(CLiteral(0.1, Dtype::kF64), "0.1");
  EXPECT_EQ(CLiteral(0.1f, Dtype::kF64), "0.10000000149011612");
  EXPECT_EQ(CLiteral(1e-5, Dtype::kF16), "1e-05f");
  EXPECT_EQ(CLiteral(1e20, Dtype::kBF16), "1e+20f");
  EXPECT_EQ(CLiteral(-0.0, Dtype::kF32), "-0.0f");
}

TEST(CTextTest, NoLiteralOverflows) {
  EXPECT_EQ(CLiteral(1e39, Dtype::kF32), "__int_as_float(0x7f800000)");
  EXPECT_EQ(CLiteral(-HUGE_VAL, Dtype::kF16), "-__int_as_float(0x7f800000)");
  EXPECT_EQ(CLiteral(std::nan(""), Dtype::kF64), "__longlong_as_double(0x7ff8000000000000LL)");
  EXPECT_EQ(CLiteral(std::numeric_limits<int64_t>::min(), Dtype::kI64),
            "(-9223372036854775807LL - 1)");
  EXPECT_EQ(CLiteral(int64_t{-2147483648}, Dtype::kI32), "(-2147483647 - 1)");
  EXPECT_EQ(CLiteral(int64_t{-1}, Dtype::kU64), "18446744073709551615ULL");
  EXPECT_EQ(CLiteral(18446744073709549568.0, Dtype::kU64), "18446744073709549568ULL");
}

TEST(CTextTest, IntegersHaveTheirTypesSuffix) {
  EXPECT_EQ(CLiteral(-3, Dtype::kI64), "-3LL");
  EXPECT_EQ(CLiteral(-3, Dtype::kI8), "-3");
  EXPECT_EQ(CLiteral(3, Dtype::kU32), "3u");
  EXPECT_EQ(CLiteral(3, Dtype::kBool), "true");
  EXPECT_EQ(CTypeName(Dtype::kBF16), "float");
  EXPECT_EQ(CTypeName(Dtype::kI64), "long long");
}

}  // namespace
}  // namespace fusec
