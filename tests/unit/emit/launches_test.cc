#include "compiler/emit/emit_launches.h"

#include <gtest/gtest.h>

namespace fusec {
namespace {

TEST(Launches, WithoutAnyAreAnEmptyText) {
  // A model of one product with a fixed shape, which consists only of steps of the library.
  EXPECT_TRUE(EmitLaunches("").ends_with("const char fusec_launches[] = \"\";\n"));
}

TEST(Launches, AreALineEach) {
  EXPECT_TRUE(EmitLaunches("dim batch 1..8\nk1(f32[batch]) in 1 blocks\n")
                  .ends_with("fusec_launches[] =\n    \"dim batch 1..8\\n\"\n"
                             "    \"k1(f32[batch]) in 1 blocks\\n\";\n"));
}

}  // namespace
}  // namespace fusec
