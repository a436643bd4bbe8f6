// No pass may change what a graph computes. FUSEC_PROPERTY_RUNS sets the number of graphs, FUSEC_PROPERTY_SEED the first.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "compiler/driver/build/pipeline.h"
#include "passes/check_fused.h"
#include "passes/pass_manager.h"
#include "passes/passes.h"
#include "tests/passes/pass_case.h"
#include "tests/property/pass_checks.h"
#include "tests/property/random_graph.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

// Inputs at several batch sizes, with the graph's answers to them.
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

// Excludes cases for which passes that merge weights make no promise (passes/merge_linear.h).
void DropInfinities(const Graph& before, const Graph& after, std::vector<Example>& examples) {
  std::erase_if(examples, [&](const Example& example) { return LosesInfinities(before, after, example.inputs); });
}

// If the pass adds an input for slots (passes/adapter_slots.h), chooses the slot of the model's own adapter for every row.
void TakeOwnAdapter(const Graph& before, const Graph& after, std::vector<Example>& examples) {
  if (after.inputs.size() == before.inputs.size()) return;
  for (Example& example : examples) example.inputs.emplace_back(Dtype::kI32, std::vector<int64_t>{example.inputs[0].dims[0]});
}

// Whether `graph` verifies and computes the examples; adds a failure with the graph's text if not.
bool Computes(const Graph& graph, ArrayRef<Example> examples, const std::string& what, double tolerance = 1e-9) {
  std::string problem;
  if (const auto verdict = Verify(graph); !verdict) problem = verdict.error().message;
  for (const Example& example : examples) {
    if (!problem.empty()) break;
    const auto found = Interpret(graph, example.inputs);
    problem = found ? FirstDifference(example.expected, *found, tolerance) : found.error().message;
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

// The bits of every number in a constant of `graph`.
std::set<uint64_t> Numbers(const Graph& graph) {
  std::set<uint64_t> numbers;
  for (const auto& node : graph.nodes) {
    const TensorData& data = node->constant;
    if (node->kind != OpKind::kConstant || data.bytes() == nullptr) continue;
    for (int64_t i = 0; i < data.element_count(); ++i) numbers.insert(std::bit_cast<uint64_t>(data.GetDouble(i)));
  }
  return numbers;
}

// The numbers in constants of `after` that are not in constants of `before`: these were rounded to their dtype. A 0 is exact.
std::vector<double> MadeNumbers(const Graph& before, const Graph& after) {
  std::set<uint64_t> known = Numbers(before);
  known.insert(std::bit_cast<uint64_t>(0.0));
  std::vector<double> made;
  for (const uint64_t bits : Numbers(after)) {
    if (known.count(bits) == 0) made.push_back(std::bit_cast<double>(bits));
  }
  return made;
}

// The number of casts that round to fewer bits, fused or not. The interpreter rounds only at casts.
int Narrowings(const Graph& graph) {
  int count = 0;
  for (const auto& node : graph.nodes) {
    if (node->body) count += Narrowings(*node->body);
    if (node->kind != OpKind::kCast) continue;
    const Dtype from = node->operand(0)->type.dtype, to = node->result()->type.dtype;
    count += IsFloat(from) && IsFloat(to) && DtypeBytes(to) < DtypeBytes(from) ? 1 : 0;
  }
  return count;
}

// By pass: the number of graphs that it has changed.
std::map<std::string, int> changed_by;

struct Tolerances {
  double exact = 1e-9;  // if the pass rounded nothing: for sums of doubles in another order
  double rounded = 1e-9;
};

// Runs one pass on a copy of `original`, and fails if the pass changes the meaning.
void KeepsMeaning(const PassInfo& pass, const PassOptions& options, const Graph& original,
                  ArrayRef<Example> examples, const Tolerances& tolerances) {
  const auto graph = original.Clone();
  PassReport report;
  // Every node left becomes a region of its own, so composites must be gone.
  if (pass.run == &OutlineRegions) {
    ASSERT_TRUE(Decompose(*graph, {}, report).has_value());
  }
  const auto changed = pass.run(*graph, options, report);
  ASSERT_TRUE(changed.has_value()) << changed.error().message;
  if (!*changed) {
    ASSERT_EQ(Print(*graph), Print(original)) << pass.name << " says nothing changed";
    return;
  }
  ++changed_by[pass.name];
  std::vector<Example> comparable = examples.vec();
  TakeOwnAdapter(original, *graph, comparable);
  if (MergesWeights(pass.name)) DropInfinities(original, *graph, comparable);
  // The interpreter calculates in double whatever the dtype is, so only numbers that the pass itself rounds, or has rounded, differ.
  const std::vector<double> made = MadeNumbers(original, *graph);
  const bool rounds = Narrowings(*graph) != Narrowings(original) || !made.empty();
  const bool overflows = std::any_of(made.begin(), made.end(), [](double x) { return !std::isfinite(x); });
  // A product of weights that overflows is infinite for every input; with such weights the layers stay apart.
  ASSERT_FALSE(overflows && MergesWeights(pass.name)) << pass.name << " makes weights that are not finite:\n" << Print(original);
  if ((rounds && std::isinf(tolerances.rounded)) || overflows) comparable.clear();  // verified only
  ASSERT_TRUE(Computes(*graph, comparable, pass.name, rounds ? tolerances.rounded : tolerances.exact))
      << "before:\n" << Print(original);
}

TEST(PassesProperty, EachPassKeepsMeaning) {
  for (const uint64_t seed : SeedsToRun(1000)) {
    RandomGraphOptions options = Doubles(seed);
    // Some passes ignore doubles, so every third graph is of f32, f16 or bf16. The effect of rounded constants on a random graph has no
    // bound (differences that cancel, steps), so passes that round constants are tested with doubles, and by the cases below.
    if (seed % 3 == 2) options.dtype = seed % 2 == 0 ? Dtype::kF32 : Dtype::kF16;
    Tolerances tolerances;
    if (options.dtype != Dtype::kF64) tolerances.rounded = HUGE_VAL;  // not compared
    const auto original = RandomGraph(seed, options);
    const NowTrying trying(seed, *original);
    const auto examples = Examples(*original, seed);
    for (const PassInfo& pass : AllPasses()) {
      KeepsMeaning(pass, {}, *original, examples, tolerances);
      if (HasFatalFailure()) return;
    }
  }
}

double CoarsestRounding(const Graph& graph) {
  double rounding = 1e-9;
  for (const auto& input : graph.inputs) {
    if (input->type.dtype == Dtype::kF32) rounding = std::max(rounding, 1e-5);  // 2^-24, 100 times
    if (DtypeBytes(input->type.dtype) == 2 && IsFloat(input->type.dtype))
      rounding = std::max(rounding, 2e-2);  // 2^-11 of f16 or 2^-8 of bf16, a few times
  }
  return rounding;
}

// The input graphs of tests/passes, each of which was made for its pass, with random data. Every pass changes some of these graphs, so that
// no pass is tested only with graphs that it does not change.
TEST(PassesProperty, EachPassChangesGraphsAndKeepsTheirMeaning) {
  constexpr int kLeast = 1;
  changed_by.clear();
  for (const PassInfo& pass : AllPasses()) {
    for (const std::string& path : PassCasePaths(pass.name)) {
      const PassCase given = ReadPassCase(kPassCases + path);
      const auto graph = Parse(given.head);
      if (!graph || !Verify(**graph)) continue;
      FillPayloads(**graph);
      PassManager before;  // passes of the case that run in front
      before.options = given.options;
      const auto self = std::find(given.passes.begin(), given.passes.end(), pass.name);
      ASSERT_NE(self, given.passes.end()) << path << " does not run " << pass.name;
      ASSERT_TRUE(before.Run(**graph, std::vector<std::string>(given.passes.begin(), self)).has_value()) << path;
      const NowTrying trying(0, **graph);
      if (given.expected.starts_with("error: ")) {
        PassReport report;
        EXPECT_FALSE(pass.run(**graph, given.options, report).has_value()) << path << " is not refused";
        continue;
      }
      std::vector<Example> examples;
      for (const auto& sizes : {std::map<std::string, int64_t>(), SomeSizes(**graph)}) {  // of the former: the least
        Example example{RandomInputs(**graph, 0, sizes), {}};
        auto expected = Interpret(**graph, example.inputs);
        if (!expected) continue;  // ids outside their table
        example.expected = *std::move(expected);
        examples.push_back(std::move(example));
      }
      if (examples.empty()) continue;
      const double rounding = CoarsestRounding(**graph);  // of what passes replace, too: sqrt(1/2) of a gelu is an f32
      KeepsMeaning(pass, given.options, **graph, examples, {rounding, rounding});
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(changed_by[pass.name], kLeast) << pass.name << " changed none of its own inputs";
  }
}

// Runs all passes in order, each on the result of the one before, and once more with one fusion disabled.
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

// Graphs after passes can be printed and parsed again.
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
