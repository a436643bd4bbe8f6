#include "compiler/region/block_stages.h"

#include <gtest/gtest.h>

namespace fusec {
namespace {

TEST(BlockStages, CountElementsOfTheRowsThatAValueHas) {
  const Expr b = Expr::Symbol("b");
  Value value;
  value.type.shape = {b, 2, 3, 5};
  EXPECT_EQ(ElementsPerRow(&value, {b}), 30);
  EXPECT_EQ(ElementsPerRow(&value, {b, 2, 3}), 5);
  value.type.shape = {b, b};
  EXPECT_EQ(ElementsPerRow(&value, {b}), 0);
  // As for a reshape that merges the rows in random graph 3423.
  value.type.shape = {b * 30};
  EXPECT_EQ(ElementsPerRow(&value, {b, 2, 3}), 0);
}

}  // namespace
}  // namespace fusec
