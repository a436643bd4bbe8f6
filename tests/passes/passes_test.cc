// Runs every tests/passes/<pass>/*.ir: IR text in, IR text out. A case is one file:
//
//     # Why this case is here.
//     # run: fold-constants,canonicalize     in this order; behind a space, "disable: NAME" leaves
//     a fusion out, "index-policy: WORD" or "matmul-precision: WORD" sets that option graph ... # ---- expected ---- graph ...
//     or "error: " and the text of the error
//
// With FUSEC_UPDATE_GOLDEN=1 in the environment, what comes out replaces what was expected.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "passes/pass_manager.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = FUSEC_SOURCE_DIR "/tests/passes/";
const std::string kExpected = "# ---- expected ----\n";

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Case {
  std::vector<std::string> passes;
  PassOptions options;
  std::string head, expected;  // all before and behind the line that divides them
};

Case ReadCase(const std::string& path) {
  Case result;
  const std::string text = ReadText(path);
  const size_t divider = text.find(kExpected);
  result.head = text.substr(0, divider);
  if (divider != std::string::npos) result.expected = text.substr(divider + kExpected.size());
  std::istringstream lines(result.head);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# run: ")) continue;
    std::istringstream words(line.substr(7));
    std::string names, keyword, value;
    words >> names >> keyword >> value;
    if (keyword == "disable:") result.options.disabled_fusions.insert(value);
    if (keyword == "index-policy:") result.options.index_policy = value;
    if (keyword == "matmul-precision:") result.options.matmul_precision = value;
    std::istringstream list(names);
    for (std::string name; std::getline(list, name, ',');) result.passes.push_back(name);
  }
  return result;
}

// The text that parse and passes make of the case.
std::string Outcome(const Case& wanted) {
  auto graph = Parse(wanted.head);
  if (!graph) return "error: " + graph.error().message + "\n";
  if (auto verified = Verify(**graph); !verified)
    return "error: " + verified.error().message + "\n";
  // Where there is no pass to hide it, text and graph must be the same thing.
  const std::string printed = Print(**graph);
  const auto again = Parse(printed);
  EXPECT_TRUE(again && Equal(**graph, **again)) << "parse(print(g)) is not g:\n" << printed;
  PassManager manager;
  manager.options = wanted.options;
  if (auto run = manager.Run(**graph, wanted.passes); !run)
    return "error: " + run.error().message + "\n";
  return Print(**graph);
}

class Passes : public testing::TestWithParam<std::string> {};

TEST_P(Passes, MakeTheExpectedText) {
  const std::string path = kFolder + GetParam();
  const Case wanted = ReadCase(path);
  ASSERT_FALSE(wanted.passes.empty()) << path << " has no line \"# run: PASS,PASS\"";
  const std::string outcome = Outcome(wanted);
  if (std::getenv("FUSEC_UPDATE_GOLDEN") != nullptr)
    std::ofstream(path) << wanted.head << kExpected << outcome;
  else
    EXPECT_EQ(outcome, wanted.expected) << path;
}

std::vector<std::string> AllCases() {
  std::vector<std::string> cases;
  for (const auto& entry : fs::recursive_directory_iterator(kFolder)) {
    if (entry.path().extension() == ".ir") cases.push_back(fs::relative(entry.path(), kFolder));
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

std::string CaseName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.size() - 3);
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Passes);
INSTANTIATE_TEST_SUITE_P(All, Passes, testing::ValuesIn(AllCases()), CaseName);

}  // namespace
}  // namespace fusec
