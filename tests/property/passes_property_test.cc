// No pass may change what a graph computes. FUSEC_PROPERTY_RUNS sets the number of graphs, FUSEC_PROPERTY_SEED the first.
#include <gtest/gtest.h>

#include "compiler/driver/build/pipeline.h"
#include "passes/check_fused.h"
#include "passes/pass_manager.h"
#include "passes/passes.h"
#include "tests/property/random_graph.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

// Inputs at several batch sizes with what the graph makes of them.
struct Example {
  std::vector<ReferenceTensor> inputs, expected;
};

std::vector<Example> Examples(const Graph& graph, uint64_t seed) {
  std::vector<Example> examples;
  for (const int64_t batch : {0, 1, 2, 7}) {
    if (batch < graph.symbols[0].low) continue;
    Example example;
    example.inputs = RandomInputs(graph, seed, {{"batch", batch}});
    auto expected = Interpret(graph, example.inputs);
    EXPECT_TRUE(expected.has_value()) << expected.error().message;
    if (expected) example.expected = *std::move(expected);
    examples.push_back(std::move(example));
  }
  return examples;
}

// What passes that merge weights do not promise (passes/merge_linear.h).
void DropInfinities(const Graph& before, const Graph& after, std::vector<Example>& examples) {
  std::erase_if(examples, [&](const Example& example) { return LosesInfinities(before, after, example.inputs); });
}

// Whether `graph` verifies and computes the examples; adds a failure with the graph's text if not.
bool Computes(const Graph& graph, const std::vector<Example>& examples, const std::string& what) {
  std::string problem;
  if (const auto verdict = Verify(graph); !verdict) problem = verdict.error().message;
  for (const Example& example : examples) {
    if (!problem.empty()) break;
    const auto found = Interpret(graph, example.inputs);
    problem = found ? FirstDifference(example.expected, *found) : found.error().message;
  }
  if (problem.empty()) return true;
  ADD_FAILURE() << what << ": " << problem << "\nafter:\n" << Print(graph);
  return false;
}

// Doubles, because constants that are folded are rounded to their dtype.
RandomGraphOptions Doubles(uint64_t seed) {
  RandomGraphOptions options;
  options.dtype = Dtype::kF64;
  options.nodes = SomeNodeCount(seed);
  options.least_batch = static_cast<int64_t>(seed % 2);
  return options;
}

TEST(PassesProperty, EachPassKeepsMeaning) {
  for (const uint64_t seed : SeedsToRun(1000)) {
    const auto original = RandomGraph(seed, Doubles(seed));
    const NowTrying trying(seed, *original);
    const auto examples = Examples(*original, seed);
    for (const PassInfo& pass : AllPasses()) {
      const auto graph = original->Clone();
      PassReport report;
      // Every node left becomes a region of its own, so composites must be gone.
      if (pass.run == &OutlineRegions) {
        ASSERT_TRUE(Decompose(*graph, {}, report).has_value());
      }
      const auto changed = pass.run(*graph, {}, report);
      ASSERT_TRUE(changed.has_value()) << changed.error().message;
      auto comparable = examples;
      if (*changed && MergesWeights(pass.name)) DropInfinities(*original, *graph, comparable);
      ASSERT_TRUE(Computes(*graph, comparable, pass.name)) << "before:\n" << Print(*original);
      if (!*changed) {
        ASSERT_EQ(Print(*graph), Print(*original)) << pass.name << " says nothing changed";
      }
    }
  }
}

// All passes in order, with what each left before it, and once more with one fusion switched off.
TEST(PassesProperty, PipelineKeepsMeaning) {
  for (const uint64_t seed : SeedsToRun(1000)) {
    const auto names = PipelinePasses(seed % 2 == 0 ? TargetKind::kGpu : TargetKind::kCpu);
    const auto original = RandomGraph(seed, Doubles(seed));
    const NowTrying trying(seed, *original);
    auto examples = Examples(*original, seed);
    const auto graph = original->Clone();
    for (const std::string& name : names) {
      const auto before = graph->Clone();
      PassReport report;
      const auto changed = FindPass(name)->run(*graph, {}, report);
      ASSERT_TRUE(changed.has_value()) << changed.error().message;
      if (*changed && MergesWeights(name)) DropInfinities(*before, *graph, examples);
      ASSERT_TRUE(Computes(*graph, examples, name)) << "before:\n" << Print(*before);
    }
    for (const auto& node : graph->nodes) {
      ASSERT_TRUE(node->kind == OpKind::kConstant || node->kind == OpKind::kRegion) << PrintNode(*node);
    }
    const std::string left_out = names[seed % names.size()];
    if (left_out.rfind("fuse-", 0) != 0) continue;
    const auto other = original->Clone();
    PassManager manager;
    manager.options.disabled_fusions = {left_out};
    ASSERT_TRUE(manager.Run(*other, names).has_value());
    ASSERT_TRUE(Computes(*other, examples, "all but " + left_out)) << "before:\n" << Print(*original);
  }
}

// What passes write is what the parser reads.
TEST(PassesProperty, FusedGraphsSurviveTheirText) {
  for (const uint64_t seed : SeedsToRun(300)) {
    const auto graph = RandomGraph(seed);
    const NowTrying trying(seed, *graph);
    PassManager manager;
    ASSERT_TRUE(manager.Run(*graph, PipelinePasses(TargetKind::kGpu)).has_value());
    const std::string text = Print(*graph);
    const auto read = Parse(text);
    ASSERT_TRUE(read.has_value()) << read.error().message << "\n" << text;
    const auto checked = CheckFused(**read);
    ASSERT_TRUE(checked.has_value()) << checked.error().message << "\n" << text;
    ASSERT_EQ(Print(**read), text);
  }
}

}  // namespace
}  // namespace fusec
