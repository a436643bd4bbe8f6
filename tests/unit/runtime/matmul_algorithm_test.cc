#include "runtime/src/artifact/matmul_algorithm.h"

#include <gtest/gtest.h>

namespace fusec::runtime {
namespace {

TEST(MatmulAlgorithm, TextIsReadBack) {
  const MatmulAlgorithm algorithm{130002, {0x1a, 0, ~uint64_t{0}, 4, 5, 6, 7, 8}};
  const std::string text = "130002 1a 0 ffffffffffffffff 4 5 6 7 8";
  EXPECT_EQ(AlgorithmText(algorithm), text);
  EXPECT_EQ(ParseAlgorithm(text), algorithm);
}

TEST(MatmulAlgorithm, OtherTextIsNone) {
  for (const char* text :
       {"", "0 1 2 3 4 5 6 7 8", "130002", "130002 1 2 3 4 5 6 7", "130002 1 2 3 4 5 6 7 8 9",
        "130002 1 2 3 4 5 6 7 8 ", "130002 1 2 3 4 5 6 7 x", "-1 1 2 3 4 5 6 7 8",
        "130002 11111111111111111 2 3 4 5 6 7 8", "130002  1 2 3 4 5 6 7 8"}) {
    EXPECT_FALSE(ParseAlgorithm(text)) << text;
  }
}

}  // namespace
}  // namespace fusec::runtime
