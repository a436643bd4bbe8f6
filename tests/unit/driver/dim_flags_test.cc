#include "compiler/driver/artifact/dim_flags.h"

#include <gtest/gtest.h>

namespace fusec {
namespace {

const std::vector<DimRange> kSymbols = {{"batch", 1, 4096}, {"items", 10, 20}};

std::string CasesText(ArrayRef<std::string> flags, ArrayRef<int64_t> defaults) {
  const auto cases = DimCases(flags, kSymbols, defaults);
  if (!cases) return cases.error().message;
  std::string text;
  for (const DimValues& dims : *cases) text += (text.empty() ? "" : "; ") + DimsText(dims);
  return text;
}

TEST(DimFlags, DefaultsAreMovedIntoTheRangesWithoutRepeats) {
  EXPECT_EQ(CasesText({}, {64}), "batch=64, items=20");
  EXPECT_EQ(CasesText({}, {0, 1, 5}), "batch=1, items=10; batch=5, items=10");
  EXPECT_EQ(DimsText(DimCases({}, {}, {1, 2})->at(0)), "static dims");
  EXPECT_EQ(DimCases({}, {}, {1, 2})->size(), 1u);
}

TEST(DimFlags, ListsAreCombined) {
  EXPECT_EQ(CasesText({"batch=1,2"}, {12}), "batch=1, items=12; batch=2, items=12");
  EXPECT_EQ(CasesText({"batch=1,2", "items=11"}, {12, 13}), "batch=1, items=11; batch=2, items=11");
}

TEST(DimFlags, MistakesAreNamed) {
  EXPECT_EQ(CasesText({"rows=1"}, {1}),
            "the model has no dim \"rows\": it has batch=1..4096, items=10..20");
  EXPECT_EQ(CasesText({"batch=0"}, {1}), "batch is 0, expected 1..4096");
  for (const char* wrong :
       {"batch", "=1", "batch=", "batch=1,", "batch=x", "batch=-1", "batch=1..2"}) {
    EXPECT_NE(CasesText({wrong}, {1}).find("expected NAME=SIZE"), std::string::npos) << wrong;
  }
}

TEST(DimFlags, Ranges) {
  const auto ranges = ParseDimRanges({"batch=1..4096", "items=7"});
  ASSERT_TRUE(ranges);
  EXPECT_EQ(ranges->at("batch"), std::pair(int64_t{1}, int64_t{4096}));
  EXPECT_EQ(ranges->at("items"), std::pair(int64_t{7}, int64_t{7}));
  for (const char* wrong : {"batch", "..", "batch=1..", "batch=..2", "batch=1...2", "=1..2"}) {
    EXPECT_FALSE(ParseDimRanges({wrong})) << wrong;
  }
  EXPECT_FALSE(ParseDimRanges({"batch=1", "batch=2"}));
}

}  // namespace
}  // namespace fusec
