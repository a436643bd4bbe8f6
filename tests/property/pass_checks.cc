#include "tests/property/pass_checks.h"

#include <gtest/gtest.h>

#include <set>

#include "compiler/driver/build/pipeline.h"
#include "compiler/plan/plan_program.h"
#include "passes/pass_manager.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/random_generator.h"
#include "tests/property/random_graph.h"
#include "tests/property/run_settings.h"

namespace fusec {

namespace {

int LaunchesOf(const Graph& graph, const std::set<std::string>& disabled) {
  const auto copy = graph.Clone();
  PassManager manager;
  manager.options.disabled_fusions = disabled;
  const auto done = manager.Run(*copy, PipelinePasses(TargetKind::kGpu));
  EXPECT_TRUE(done.has_value()) << done.error().message;
  std::vector<IndexSite> sites;
  const auto plan = PlanProgram(*copy, {TargetKind::kGpu, "highest", &GpuFor("sm_90a")}, sites);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return plan.has_value() ? plan->LaunchCount() : 0;
}

}  // namespace

void FillPayloads(Graph& graph) {
  Random random(0);
  for (const auto& node : graph.nodes) {
    TensorData& data = node->constant;
    if (node->kind != OpKind::kConstant || data.bytes() != nullptr) continue;
    const TensorType& type = node->result()->type;
    data = TensorData(type.dtype, *StaticShape(type.shape));
    for (int64_t i = 0; i < data.element_count(); ++i) data.SetDouble(i, random.Eighths());
  }
}

std::map<std::string, int64_t> SomeSizes(const Graph& graph) {
  std::map<std::string, int64_t> sizes;
  for (const DimSymbol& symbol : graph.symbols)
    sizes[symbol.name] =
        std::clamp<int64_t>(symbol.name == "requests" ? 3 : 7, symbol.low, symbol.high);
  return sizes;
}

void ExpectSameMeaning(const MakeGraph& make, const std::string& pass, int changes_one_in) {
  int changed = 0;
  const std::vector<uint64_t> seeds = SeedsToRun(300);
  for (const uint64_t seed : seeds) {
    const auto graph = make(seed);
    const NowTrying trying(seed, *graph);
    const auto after = graph->Clone();
    PassManager manager;
    const auto done = manager.Run(*after, {pass});
    ASSERT_TRUE(done.has_value()) << done.error().message;
    changed += manager.timings().back().changed;
    for (const int64_t batch : {0, 3}) {
      const auto inputs = RandomInputs(*graph, seed, {{"batch", batch}});
      const auto expected = Interpret(*graph, inputs), found = Interpret(*after, inputs);
      ASSERT_TRUE(expected.has_value() && found.has_value());
      EXPECT_EQ(FirstDifference(*expected, *found), "") << Print(*after);
    }
  }
  EXPECT_GT(changed, static_cast<int>(seeds.size()) / changes_one_in);
}

void ExpectNoMoreLaunches(const MakeGraph& make, const std::string& pass, int saves_one_in) {
  int saved = 0;
  const std::vector<uint64_t> seeds = SeedsToRun(300);
  for (const uint64_t seed : seeds) {
    const auto graph = make(seed);
    const NowTrying trying(seed, *graph);
    const int without = LaunchesOf(*graph, {pass}), with = LaunchesOf(*graph, {});
    EXPECT_LE(with, without);
    saved += without - with;
  }
  EXPECT_GT(saved, static_cast<int>(seeds.size()) / saves_one_in);
}

}  // namespace fusec
