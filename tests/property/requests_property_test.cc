// Per-request inputs: after hoisting and splitting, a graph computes the same as with replicated inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "compiler/driver/build/pipeline.h"
#include "passes/pass_manager.h"
#include "passes/request_rows.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/random_generator.h"
#include "tests/property/run_settings.h"
#include "tests/property/seeds_to_run.h"

namespace fusec {
namespace {

// Some inputs of a random graph that have a row for each item, by name; at least one of these is left out unless there is a map.
PerRequest SomeInputs(const Graph& graph, uint64_t seed) {
  Random random(seed);
  PerRequest per_request;
  per_request.is_mapped = random.OneIn(2);
  std::vector<std::string> possible;
  for (const auto& input : graph.inputs) {
    const Shape& shape = input->type.shape;
    std::vector<std::string> others;
    for (size_t axis = 1; axis < shape.size(); ++axis) shape[axis].CollectSymbols(others);
    const bool again = std::find(others.begin(), others.end(), "batch") != others.end();
    if (!shape.empty() && shape[0].AsSymbol() == "batch" && !again) possible.push_back(input->name);
  }
  for (size_t i = per_request.is_mapped ? 0 : 1; i < possible.size(); ++i) {
    if (random.OneIn(2)) per_request.inputs.push_back(possible[i]);
  }
  return per_request;
}

// The passes that split graphs by requests, with the passes before and after them in a compilation.
std::vector<std::string> SplittingPasses() {
  return {"eliminate-dead-nodes", "fold-constants", "canonicalize",     "decompose",    "fold-constants",  "canonicalize",
          "eliminate-common",     "hoist-requests", "split-seams",      "fold-constants", "canonicalize",  "eliminate-common",
          "eliminate-dead-nodes"};
}

struct Case {
  std::unique_ptr<Graph> original, declared, split;
  bool is_changed = false;  // by the passes that split
};

// nullopt if no input is declared.
std::optional<Case> MakeCase(uint64_t seed, Dtype dtype) {
  RandomGraphOptions options;
  options.dtype = dtype;
  options.nodes = SomeNodeCount(seed);
  Case made;
  made.original = RandomGraph(seed, options);
  const PerRequest per_request = SomeInputs(*made.original, seed);
  if (per_request.inputs.empty()) return std::nullopt;
  made.declared = made.original->Clone();
  const auto declared = DeclarePerRequest(*made.declared, per_request, {kRequests, 1, kMaxBatch});
  EXPECT_TRUE(declared.has_value()) << declared.error().message;
  made.split = made.declared->Clone();
  PassManager manager;
  manager.options.per_request = per_request;
  const auto ran = manager.Run(*made.split, SplittingPasses());
  EXPECT_TRUE(ran.has_value()) << ran.error().message;
  for (const PassTiming& pass : manager.timings())
    made.is_changed |= pass.changed && (pass.name == "hoist-requests" || pass.name == "split-seams");
  return made;
}

// Inputs of the graph with inputs per request; ids lie inside the tables of the original.
std::vector<ReferenceTensor> SomeRows(const Case& one, uint64_t seed, int64_t batch, int64_t requests) {
  const bool is_mapped = FindRequestMap(*one.declared) != nullptr;
  const auto of_requests = RandomInputs(*one.original, seed + 1, {{"batch", is_mapped ? requests : 1}, {"items", 3}});
  const auto of_items = RandomInputs(*one.original, seed, {{"batch", batch}, {"items", 3}});
  std::vector<ReferenceTensor> inputs;
  for (size_t i = 0; i < of_items.size(); ++i) {
    const bool is_of_items = one.declared->inputs[i]->type == one.original->inputs[i]->type;
    inputs.push_back(is_of_items ? of_items[i] : of_requests[i]);
  }
  if (!is_mapped) return inputs;
  Random random(seed);
  ReferenceTensor map(Dtype::kI64, {batch});
  for (int64_t& request : map.ints) request = random.Below(2 * requests) - requests;
  inputs.push_back(std::move(map));
  return inputs;
}

// The inputs of the graph with a row for each item.
std::vector<ReferenceTensor> Replicated(const Case& one, ArrayRef<ReferenceTensor> inputs, int64_t batch) {
  const Value* map = FindRequestMap(*one.declared);
  std::vector<ReferenceTensor> replicated;
  for (size_t i = 0; i < one.original->inputs.size(); ++i) {
    const ReferenceTensor& given = inputs[i];
    if (one.declared->inputs[i]->type == one.original->inputs[i]->type) {
      replicated.push_back(given);
      continue;
    }
    std::vector<int64_t> dims = given.dims;
    dims[0] = batch;
    ReferenceTensor rows(given.dtype, dims);
    const int64_t length = batch == 0 ? 0 : static_cast<int64_t>(rows.reals.size() + rows.ints.size()) / batch;
    for (int64_t item = 0; item < batch; ++item) {
      int64_t request = map ? inputs.back().ints[item] : 0;
      if (request < 0) request += given.dims[0];
      for (int64_t k = 0; k < length; ++k) {
        if (IsFloat(rows.dtype))
          rows.reals[item * length + k] = given.reals[request * length + k];
        else
          rows.ints[item * length + k] = given.ints[request * length + k];
      }
    }
    replicated.push_back(std::move(rows));
  }
  return replicated;
}

TEST(RequestsProperty, SplitKeepsMeaning) {
  int changed = 0;
  const auto seeds = SeedsToRun(2000);
  for (const uint64_t seed : seeds) {
    const auto one = MakeCase(seed, Dtype::kF64);
    if (!one) continue;
    const NowTrying trying(seed, *one->declared);
    changed += one->is_changed;
    for (const int64_t batch : {1, 2, 7}) {
      const auto inputs = SomeRows(*one, seed, batch, 1 + batch / 2);
      const auto expected = Interpret(*one->original, Replicated(*one, inputs, batch));
      ASSERT_TRUE(expected.has_value()) << expected.error().message;
      const auto declared = Interpret(*one->declared, inputs);
      ASSERT_TRUE(declared.has_value()) << declared.error().message;
      ASSERT_EQ(FirstDifference(*expected, *declared, 0), "");
      const auto split = Interpret(*one->split, inputs);
      ASSERT_TRUE(split.has_value()) << split.error().message << "\n" << Print(*one->split);
      ASSERT_EQ(FirstDifference(*expected, *split), "") << Print(*one->split);
    }
  }
  if (seeds.size() >= 2000) {
    EXPECT_GT(changed, 200);
  }
}

void CompareCompiled(ArrayRef<uint64_t> seeds, Dtype dtype, double relative, RunOn where) {
  for (const uint64_t seed : seeds) {
    const auto one = MakeCase(seed, dtype);
    if (!one || !one->is_changed) continue;
    const NowTrying trying(seed, *one->split);
    const auto compiled =
        CompiledGraphs::Make({one->split.get()}, where, FusionPasses(where == RunOn::kCpu ? TargetKind::kCpu : TargetKind::kGpu));
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    for (const int64_t batch : {1, 5}) {
      const auto inputs = SomeRows(*one, seed, batch, 3);
      const auto expected = Interpret(*one->declared, inputs);
      ASSERT_TRUE(expected.has_value()) << expected.error().message;
      const auto rounded = InterpretRounded(*one->declared, inputs);
      ASSERT_TRUE(rounded.has_value()) << rounded.error().message;
      const auto found = (*compiled)->Run({inputs});
      ASSERT_TRUE(found.has_value()) << found.error().message;
      EXPECT_EQ(FirstWrong(*expected, *rounded, (*found)[0], relative), "") << "batch " << batch;
    }
  }
}

TEST(RequestsProperty, CpuAnswersMatch) { CompareCompiled(SeedsToRun(30), Dtype::kF32, 1e-5, RunOn::kCpu); }

TEST(RequestsProperty, GpuAnswersMatch) {
  CompareCompiled(SeedsToRun(30), Dtype::kF32, 1e-5, GpuOrItsText());
  CompareCompiled(SeedsToRun(8), Dtype::kF16, 1e-3, GpuOrItsText());
}

// relu(x W + the row of `of_request` that request_of_item names), as split-seams leaves it.
std::unique_ptr<Graph> ProductOfItems(Dtype dtype) {
  constexpr int64_t kTerms = 192, kColumns = 256;
  auto graph = std::make_unique<Graph>();
  graph->symbols = {{"batch", 1, 9000}, {kRequests, 1, 64}};
  Builder builder(*graph);
  Random random(3);
  TensorData weights(dtype, {kColumns, kTerms});
  for (int64_t i = 0; i < weights.element_count(); ++i) weights.SetDouble(i, random.Eighths() / 8);
  Value* x = graph->AddInput("x", {dtype, {Expr::Symbol("batch"), kTerms}});
  Value* of_request = graph->AddInput("of_request", {dtype, {Expr::Symbol(kRequests), kColumns}});
  Value* map = graph->AddInput(kRequestMap, {Dtype::kI64, {Expr::Symbol("batch")}});
  Value* product = builder.Make(OpKind::kMatMul, {x, builder.Constant(std::move(weights))},
                                {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1}}});
  Value* row = builder.Make(OpKind::kGather, {of_request, map}, {{"axis", int64_t{0}}});
  graph->outputs = {builder.Make(OpKind::kRelu, {builder.Make(OpKind::kAdd, {product, row})})};
  graph->output_names = {"y"};
  return graph;
}

// Runs every kernel that may compute such a product, also with a request number that is out of range, for which nothing is read.
TEST(RequestsProperty, EpiloguesLookRowsUp) {
  for (const auto& [dtype, tolerance] : {std::pair{Dtype::kF32, 1e-5}, {Dtype::kF16, 4e-3}}) {
    const auto graph = ProductOfItems(dtype);
    for (int candidate = -1; candidate < 6; ++candidate) {
      const auto number = candidate < 0 ? std::nullopt : std::optional<size_t>(candidate);
      const auto compiled = CompiledGraphs::Make({graph.get()}, GpuOrItsText(), {}, "highest", number);
      ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
      for (const int64_t batch : {1, 4, 40, 300}) {
        auto inputs = RandomInputs(*graph, /*seed=*/batch, {{"batch", batch}, {kRequests, 5}});
        for (int64_t item = 0; item < batch; ++item) inputs[2].ints[item] = item * 7 % 10 - 5;
        ExpectAnswers(**compiled, {graph.get()}, {inputs}, tolerance, "batch " + std::to_string(batch));
        inputs[2].ints[batch / 2] = 1000000;
        const auto refused = (*compiled)->Run({inputs});
        ASSERT_FALSE(refused.has_value());
        EXPECT_NE(refused.error().message.find("index 1000000 at position [" + std::to_string(batch / 2) + "]"), std::string::npos)
            << refused.error().message;
      }
    }
  }
}

}  // namespace
}  // namespace fusec
