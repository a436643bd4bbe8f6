// Runs every tests/passes/<pass>/*.ir (pass_case.h describes the format), and checks the table of passes against the pipeline. With
// FUSEC_UPDATE_GOLDEN=1 in the environment, the result replaces the expectation.

#include "tests/passes/pass_case.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "compiler/driver/build/pipeline.h"

namespace fusec {
namespace {

// The text that parse and passes make of the case.
std::string Outcome(const PassCase& wanted) {
  auto graph = Parse(wanted.head);
  if (!graph) return "error: " + graph.error().message + "\n";
  if (auto verified = Verify(**graph); !verified)
    return "error: " + verified.error().message + "\n";
  // Printing and parsing must give the same graph; no pass may hide a difference.
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
  const std::string path = kPassCases + GetParam();
  const PassCase wanted = ReadPassCase(path);
  ASSERT_FALSE(wanted.passes.empty()) << path << " has no line \"# run: PASS,PASS\"";
  const std::string outcome = Outcome(wanted);
  if (std::getenv("FUSEC_UPDATE_GOLDEN") != nullptr)
    std::ofstream(path) << wanted.head << kExpectedLine << outcome;
  else
    EXPECT_EQ(outcome, wanted.expected) << path;
}

// Each folder has a case no_change.ir, close to what the pass changes, that must stay as it is.
TEST(PassFolders, HaveACaseThatStaysAsItIs) {
  for (const PassInfo& pass : AllPasses()) {
    const std::string path = kPassCases + pass.name + "/no_change.ir";
    ASSERT_TRUE(std::filesystem::is_regular_file(path)) << path << " is not there";
    const PassCase stays = ReadPassCase(path);
    EXPECT_TRUE(stays.head.starts_with("# ") && !stays.head.starts_with("# run:"))
        << path << " does not begin with a line that says why the graph stays";
    const auto graph = Parse(stays.head);
    ASSERT_TRUE(graph.has_value()) << path << ": " << graph.error().message;
    PassManager manager;
    manager.options = stays.options;
    ASSERT_TRUE(manager.Run(**graph, stays.passes).has_value()) << path;
    int runs = 0;
    for (const PassTiming& run : manager.timings()) {
      if (run.name != pass.name) continue;
      ++runs;
      EXPECT_FALSE(run.changed) << path << " is changed";
    }
    EXPECT_GT(runs, 0) << path << " does not run " << pass.name;
  }
}

// passes.def, which help shows, has the order in which passes first run.
TEST(PassTable, IsInTheOrderOfThePipeline) {
  std::vector<std::string> table;
  for (const PassInfo& pass : AllPasses()) table.emplace_back(pass.name);
  std::set<std::string> used;
  for (const TargetKind target : {TargetKind::kCpu, TargetKind::kGpu}) {
    for (const bool round_every_op : {false, true}) {
      std::set<std::string> run;
      auto place = table.begin();
      for (const std::string& name : PipelinePasses(target, round_every_op)) {
        used.insert(name);
        if (!run.insert(name).second) continue;
        const auto found = std::find(place, table.end(), name);
        ASSERT_NE(found, table.end()) << name << " first runs behind " << *place
                                      << ", but stands before it in passes.def";
        place = found;
      }
    }
  }
  const auto unused = [&](const std::string& name) { return used.count(name) == 0; };
  const auto first_unused = std::find_if(table.begin(), table.end(), unused);
  EXPECT_TRUE(std::all_of(first_unused, table.end(), unused))
      << *first_unused << " runs in no compilation, but is not at the end of passes.def";
}

std::string CaseName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.size() - 3);
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Passes);
INSTANTIATE_TEST_SUITE_P(All, Passes, testing::ValuesIn(PassCasePaths()), CaseName);

}  // namespace
}  // namespace fusec
