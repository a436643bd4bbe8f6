#include "compiler/support/words.h"

#include <gtest/gtest.h>

#include <vector>

namespace fusec {
namespace {

TEST(Words, AreLettersDigitsAndUnderscores) {
  std::vector<std::pair<std::string, size_t>> words;
  ForEachWord("a_1+ x[row]*1e-05f;",
              [&](std::string_view word, size_t at) { words.emplace_back(word, at); });
  const std::vector<std::pair<std::string, size_t>> expected = {
      {"a_1", 0}, {"x", 5}, {"row", 7}, {"1e", 12}, {"05f", 15}};
  EXPECT_EQ(words, expected);
}

TEST(Words, AreReplacedOneByOne) {
  const auto replace = [](std::string_view word, std::string_view before) {
    return before.ends_with(".") ? std::string(word) : "<" + std::string(word) + ">";
  };
  EXPECT_EQ(ReplaceWords("sums.at[i] + at", replace), "<sums>.at[<i>] + <at>");
  EXPECT_EQ(ReplaceWords("", replace), "");
  EXPECT_EQ(ReplaceWords("+-", replace), "+-");
}

}  // namespace
}  // namespace fusec
