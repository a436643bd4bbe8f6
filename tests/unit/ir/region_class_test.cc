#include "compiler/ir/region_class.h"

#include <gtest/gtest.h>

#include "compiler/ir/graph.h"

namespace fusec {
namespace {

TEST(RegionClass, IsFoundByItsText) {
  EXPECT_EQ(FindRegionClass("row_reduction"), RegionClass::kRowReduction);
  EXPECT_STREQ(RegionClassText(RegionClass::kRowReduction), "row_reduction");
  EXPECT_EQ(FindRegionClass("pointwise|"), std::nullopt);
  EXPECT_EQ(FindRegionClass(""), std::nullopt);
}

TEST(RegionClass, ItsWordsAreTheTexts) {
  std::string texts;
  for (int i = 0; i <= static_cast<int>(RegionClass::kBlockProgram); ++i) {
    const auto region_class = static_cast<RegionClass>(i);
    texts += (i == 0 ? "" : "|") + std::string(RegionClassText(region_class));
    EXPECT_EQ(FindRegionClass(RegionClassText(region_class)), region_class);
  }
  EXPECT_EQ(texts, kRegionClassWords);
}

TEST(RegionClass, IsReadFromARegion) {
  const auto graph = Parse(
      "graph @g(%x: f32[4]) {\n"
      "  %y = region(%x) {class = \"sequential\"} : f32[4] {\n"
      "    graph @scan(%x: f32[4]) {\n"
      "      %y = cumsum(%x) {axis = 0, exclusive = 0, reverse = 0} : f32[4]\n"
      "      return %y\n"
      "    }\n"
      "  }\n"
      "  return %y\n"
      "}\n");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(RegionClassOf(*(*graph)->nodes[0]), RegionClass::kSequential);
}

}  // namespace
}  // namespace fusec
