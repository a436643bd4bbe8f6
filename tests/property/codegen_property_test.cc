// The compiled program gives the interpreter's answers for the graph before all passes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compiler/driver/build/pipeline.h"
#include "compiler/emit/emit_kernel.h"
#include "compiler/emit/equal_kernels.h"
#include "compiler/plan/plan_program.h"
#include "passes/pass_manager.h"
#include "runtime/src/cuda/nvrtc.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/random_graph.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

constexpr size_t kGraphsTogether = 20;

std::vector<std::unique_ptr<Graph>> Graphs(ArrayRef<uint64_t> seeds, Dtype dtype) {
  RandomGraphOptions options;
  options.dtype = dtype;
  options.least_batch = static_cast<int64_t>(seeds[0] / kGraphsTogether % 2);  // together they share symbols
  std::vector<std::unique_ptr<Graph>> graphs;
  for (const uint64_t seed : seeds) {
    options.nodes = SomeNodeCount(seed);
    graphs.push_back(RandomGraph(seed, options));
  }
  return graphs;
}

std::vector<const Graph*> Pointers(ArrayRef<std::unique_ptr<Graph>> graphs) {
  std::vector<const Graph*> pointers;
  for (const auto& graph : graphs) pointers.push_back(graph.get());
  return pointers;
}

// Runs of at most kGraphsTogether seeds.
std::vector<std::vector<uint64_t>> Batches(ArrayRef<uint64_t> seeds) {
  std::vector<std::vector<uint64_t>> batches;
  for (const uint64_t seed : seeds) {
    if (batches.empty() || batches.back().size() == kGraphsTogether) batches.emplace_back();
    batches.back().push_back(seed);
  }
  return batches;
}

void Compare(ArrayRef<uint64_t> seeds, Dtype dtype, double relative,
             RunOn where = RunOn::kCpu, std::optional<size_t> candidate = {}) {
  const auto graphs = Graphs(seeds, dtype);
  const auto compiled = CompiledGraphs::Make(Pointers(graphs), where, {}, "highest", candidate);
  ASSERT_TRUE(compiled.has_value()) << "seeds from " << seeds[0] << ": " << compiled.error().message
                                    << (seeds.size() == 1 ? "\n" + Print(*graphs[0]) : "");
  for (const auto& [batch, items] : {std::pair{0, 3}, {1, 1}, {2, 5}, {7, 0}, {5, 16}}) {
    if (std::min(batch, items) < graphs[0]->symbols[0].low) continue;
    std::vector<std::vector<ReferenceTensor>> inputs;
    for (size_t i = 0; i < graphs.size(); ++i) {
      inputs.push_back(RandomInputs(*graphs[i], seeds[i], {{"batch", batch}, {"items", items}}));
    }
    const auto found = (*compiled)->Run(inputs);
    ASSERT_TRUE(found.has_value()) << "seeds from " << seeds[0] << ": " << found.error().message;
    for (size_t i = 0; i < graphs.size(); ++i) {
      const NowTrying trying(seeds[i], *graphs[i]);
      if (MergedWeightsMeetInfinities(*graphs[i], inputs[i])) continue;
      const auto expected = Interpret(*graphs[i], inputs[i]);
      ASSERT_TRUE(expected.has_value()) << expected.error().message;
      const auto rounded = InterpretRounded(*graphs[i], inputs[i]);
      ASSERT_TRUE(rounded.has_value()) << rounded.error().message;
      EXPECT_EQ(FirstWrong(*expected, *rounded, (*found)[i], relative), "") << "batch " << batch << " items " << items;
    }
  }
}

// f32 within 1e-5: sums of up to 4096 terms, each rounded to 6e-8.
TEST(CodegenProperty, CpuAnswersMatch) {
  for (const auto& seeds : Batches(SeedsToRun(300))) Compare(seeds, Dtype::kF32, 1e-5);
}

// The estimate includes rounding of stored values; within a kernel they are f32.
TEST(CodegenProperty, CpuAnswersMatchInOtherFloats) {
  for (const auto& seeds : Batches(SeedsToRun(20))) {
    Compare(seeds, Dtype::kF16, 1e-3);
    Compare(seeds, Dtype::kBF16, 8e-3);
    Compare(seeds, Dtype::kF64, 1e-12);
  }
}

// Uses the kernels that tuning tries in addition to the planned ones.
TEST(CodegenProperty, CandidatesOfTuningMatch) {
  for (const auto& seeds : Batches(SeedsToRun(20))) {
    Compare(seeds, Dtype::kF32, 1e-5, RunOn::kCpu, seeds[0] + 1);
    for (size_t candidate = 0; candidate < 3; ++candidate)
      Compare(seeds, Dtype::kF32, 1e-5, GpuOrItsText(), seeds[0] + 7 * candidate + 1);
  }
}

// The text that NVRTC compiles, run with fibers as threads; with FUSEC_PROPERTY_DEVICE=cuda it runs on a GPU.
TEST(CodegenProperty, GpuAnswersMatch) {
  for (const auto& seeds : Batches(SeedsToRun(20))) {
    Compare(seeds, Dtype::kF32, 1e-5, GpuOrItsText());
    Compare(seeds, Dtype::kF16, 1e-3, GpuOrItsText());
  }
}

// Chains of pointwise ops and views, half of them with every value as an output.
std::vector<std::unique_ptr<Graph>> HalfChains(ArrayRef<uint64_t> seeds, Dtype dtype) {
  RandomGraphOptions options;
  options.dtype = dtype;
  options.nodes = 20;
  options.gathers = options.reductions = options.matmuls = options.composites = options.scans = false;
  std::vector<std::unique_ptr<Graph>> graphs;
  for (const uint64_t seed : seeds) {
    graphs.push_back(RandomGraph(seed, options));
    Graph& graph = *graphs.back();
    for (const auto& node : graph.nodes) {
      const bool is_output = std::count(graph.outputs.begin(), graph.outputs.end(), node->result()) != 0;
      if (node->kind == OpKind::kConstant || is_output || seed % 2 == 0) continue;
      graph.outputs.push_back(node->result());
      graph.output_names.push_back(fmt::format("y{}", graph.output_names.size()));
    }
  }
  return graphs;
}

std::vector<ReferenceTensor> Answers(ArrayRef<std::unique_ptr<Graph>> graphs, RunOn where,
                                     ArrayRef<std::string> passes) {
  const auto compiled = CompiledGraphs::Make(Pointers(graphs), where, passes);
  EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
  std::vector<std::vector<ReferenceTensor>> inputs;
  for (size_t i = 0; i < graphs.size(); ++i)
    inputs.push_back(RandomInputs(*graphs[i], 7 + i, {{"batch", 5}, {"items", 3}}));
  const auto found = (*compiled)->Run(inputs);
  EXPECT_TRUE(found.has_value()) << found.error().message;
  std::vector<ReferenceTensor> all;
  for (const auto& answers : *found) all.insert(all.end(), answers.begin(), answers.end());
  return all;
}

// With --round-every-op, fused kernels give the same bits as one kernel per op; without it, they do not. These graphs have no reductions
// and products, whose order of summation changes when they are fused.
TEST(CodegenProperty, RoundingEveryOpIsUnfused) {
  int differ_without = 0;
  const std::vector<uint64_t> all_seeds = SeedsToRun(12);
  for (const auto& seeds : Batches(all_seeds)) {
    for (const auto& [dtype, where] : {std::pair{Dtype::kF16, RunOn::kCpu}, {Dtype::kBF16, GpuOrItsText()}}) {
      const TargetKind kind = where == RunOn::kCpu ? TargetKind::kCpu : TargetKind::kGpu;
      const auto graphs = HalfChains(seeds, dtype);
      const auto unfused = Answers(graphs, where, {"eliminate-dead-nodes", "decompose", "outline-regions"});
      EXPECT_EQ(FirstDifference(unfused, Answers(graphs, where, PipelinePasses(kind, true)), 0), "")
          << "seeds from " << seeds[0];
      const auto fused = Answers(graphs, where, PipelinePasses(kind, false));
      differ_without += !FirstDifference(unfused, fused, 0).empty();
    }
  }
  if (all_seeds.size() >= 12) {
    EXPECT_GT(differ_without, 0);
  }
}

// Tensors with the same names as the variables of a kernel that keeps rows in shared memory.
TEST(CodegenProperty, TensorsMayBeCalledLikeVariables) {
  const auto graph = Parse(
      "graph @g(%element: f32[batch, 4], %row_in_block: f32[4, 3], %rows_here: f32[3, 2], %rows: f32[2]) "
      "symbols(batch in 1..64) {\n"
      "  %k = matmul(%element, %row_in_block) {transpose_a = 0, transpose_b = 0} : f32[batch, 3]\n"
      "  %i = tanh(%k) : f32[batch, 3]\n"
      "  %first_row = matmul(%i, %rows_here) {transpose_a = 0, transpose_b = 0} : f32[batch, 2]\n"
      "  %step_0 = add(%first_row, %rows) : f32[batch, 2]\n"
      "  return %step_0 \"step_0\"\n"
      "}\n");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  for (const RunOn where : {RunOn::kCpu, GpuOrItsText()}) {
    const auto compiled = CompiledGraphs::Make({graph->get()}, where);
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    ExpectAnswers(**compiled, {graph->get()}, {RandomInputs(**graph, 1, {{"batch", 5}})}, 1e-5, "batch 5");
  }
}

// Products with a bias and a residual at the edges of the tiles that kernels make, by kernels for few rows and for many, one and
// several at once, of inputs or of inputs by weights; the last two also with infinities and NaN, which the tensor cores' split of
// floats would lose.
void CompareProducts(std::optional<size_t> candidate, bool weights) {
  for (const auto& [dtype, precision, tolerance] : {std::tuple{"f32", "highest", 1e-5},
                                                    {"f32", "high", 4e-3},
                                                    {"f16", "highest", 4e-3},
                                                    {"bf16", "highest", 4e-2}}) {
    std::vector<std::unique_ptr<Graph>> graphs;
    for (const auto& [n, k, x_lead, lead] : {std::tuple{1, 13, "", ""},
                                             {260, 200, "", ""},
                                             {33, 1, "", ""},
                                             {64, 64, "", ""},
                                             {70, 367, "", ""},
                                             {33, 20, "", "3, "},
                                             {7, 130, "2, 3, ", "2, 3, "},
                                             {70, 64, "2, ", "2, "},
                                             {32, 130, "", ""}}) {
      const std::string text = fmt::format(
          "graph @g(%x: {0}[{3}batch, {2}], %w: {0}[{4}{1}, {2}], %b: {0}[{4}1, {1}], %residual: {0}[{4}batch, {1}]) "
          "symbols(batch in 0..9000) {{\n"
          "  %y = matmul(%x, %w) {{transpose_a = 0, transpose_b = 1}} : {0}[{4}batch, {1}]\n"
          "  %z = add(%y, %b) : {0}[{4}batch, {1}]\n"
          "  %s = add(%z, %residual) : {0}[{4}batch, {1}]\n"
          "  %r = relu(%s) : {0}[{4}batch, {1}]\n"
          "  return %r\n"
          "}}\n",
          dtype, n, k, x_lead, lead);
      auto graph = Parse(text);
      ASSERT_TRUE(graph.has_value()) << graph.error().message;
      if (weights) MakeWeights(**graph, "w");
      graphs.push_back(*std::move(graph));
    }
    const auto compiled = CompiledGraphs::Make(Pointers(graphs), GpuOrItsText(), {}, precision, candidate);
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    for (const int64_t batch : {0, 1, 3, 8, 9, 40, 131}) {
      std::vector<std::vector<ReferenceTensor>> inputs;
      for (size_t i = 0; i < graphs.size(); ++i) {
        inputs.push_back(RandomInputs(*graphs[i], i + 1, {{"batch", batch}}));
        for (double& x : inputs[i][0].reals) x /= 16;
        if (i + 2 < graphs.size() || batch == 0) continue;
        inputs[i][0].reals[0] = INFINITY;
        inputs[i][0].reals[inputs[i][0].reals.size() - 1] = -INFINITY;
        if (!weights) inputs[i][1].reals[5] = NAN;
      }
      ExpectAnswers(**compiled, Pointers(graphs), inputs, tolerance, fmt::format("{} {} batch {}", dtype, precision, batch));
    }
  }
}

TEST(CodegenProperty, ProductsOfAnySizeMatch) {
  CompareProducts({}, false);
  CompareProducts({}, true);
}

// Each of the kernels that tuning tries, at one size or another: every graph takes the kernel three after that of the graph before.
TEST(CodegenProperty, ProductsByCandidatesMatch) {
  const int64_t share = ShareToRun();
  for (int64_t i = 0; 6 * i < 48; i += share) CompareProducts(static_cast<size_t>(6 * i), i / share % 2 == 0);
}

// Even without rows, a block of a product would read the first row of its operand.
TEST(CodegenProperty, ProductsOfNoRowsLaunchNothing) {
  auto graph = Parse(
      "graph @g(%x: f32[batch, 64], %w: f32[70, 64]) symbols(batch in 0..9000) {\n"
      "  %y = matmul(%x, %w) {transpose_a = 0, transpose_b = 1} : f32[batch, 70]\n"
      "  return %y\n"
      "}\n");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  PassManager manager;
  ASSERT_TRUE(manager.Run(**graph, PipelinePasses(TargetKind::kGpu)).has_value());
  std::vector<IndexSite> sites;
  const auto plan = PlanProgram(**graph, {TargetKind::kGpu, "highest", &GpuFor("sm_90a")}, sites);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  int kernels = 0;
  for (const KernelPlan* kernel : FunctionsOf(*plan)) {
    EXPECT_EQ(kernel->blocks.Evaluate({{"batch", 0}}).value(), 0) << kernel->name;
    EXPECT_GT(kernel->blocks.Evaluate({{"batch", 1}}).value(), 0) << kernel->name;
    kernels += kernel->region_class == RegionClass::kMatMul;
  }
  EXPECT_GE(kernels, 2);
}

// If rows have one element, a result per row is also a result per element, which may be stored without a loop over a row.
TEST(CodegenProperty, CandidatesOfRowsOfOneElementMatch) {
  auto graph = Parse("graph @g(%x: f32[batch, 3]) symbols(batch in 0..9000) {\n"
                     "  %zero = constant() [0.0] : f32[]\n"
                     "  %padded = pad(%x, %zero) {mode = \"constant\", pads = dims[1, 0, 1, 1]} : f32[batch + 2, 4]\n"
                     "  %last = slice(%padded) {shape = dims[batch + 2, 1], starts = dims[0, 3], steps = [1, 1]} : f32[batch + 2, 1]\n"
                     "  %y = softmax(%last) {axis = 1} : f32[batch + 2, 1]\n"
                     "  return %y\n"
                     "}\n");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const auto inputs = RandomInputs(**graph, 1, {{"batch", 5}});
  const auto expected = Interpret(**graph, inputs);
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  constexpr size_t kMoreThanThereAre = 12;
  for (size_t candidate = 0; candidate < kMoreThanThereAre; ++candidate) {
    const auto compiled = CompiledGraphs::Make({graph->get()}, GpuOrItsText(), {}, "highest", candidate);
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    const auto found = (*compiled)->Run({inputs});
    ASSERT_TRUE(found.has_value()) << found.error().message;
    EXPECT_EQ(FirstWrong(*expected, *expected, (*found)[0], 1e-6), "") << candidate;
  }
}

// Rows by a thread, a warp and a block, in registers and too long for them, of whole vectors and not; every second
// row has an infinity or a NaN in its last element.
TEST(CodegenProperty, RowsOfAnyLengthMatch) {
  for (const auto& [dtype, tolerance] : {std::pair{"f32", 1e-5}, {"f16", 4e-3}, {"f64", 1e-12}, {"i64", 0.0}}) {
    std::vector<std::unique_ptr<Graph>> graphs;
    for (const int length : {31, 33, 64, 96, 100, 328, 768, 1023, 1024, 1026, 2048, 4100, 8200}) {
      const std::string text = fmt::format(
          "graph @g(%x: {0}[batch, {1}], %w: {0}[{1}], %n: f32[batch, 3, {1}, 2]) symbols(batch in 0..9000) {{\n"
          "  %s = add(%x, %w) : {0}[batch, {1}]\n"
          "  %m = reduce_max(%s) {{axes = [1], keepdims = 1}} : {0}[batch, 1]\n"
          "  %d = sub(%s, %m) : {0}[batch, {1}]\n"
          "  %q = mul(%d, %d) : {0}[batch, {1}]\n"
          "  %v = reduce_mean(%q) {{axes = [1], keepdims = 1}} : {0}[batch, 1]\n"
          "  %y = sub(%d, %v) : {0}[batch, {1}]\n"
          "  %p = reduce_min(%n) {{axes = [2, 3], keepdims = 1}} : f32[batch, 3, 1, 1]\n"
          "  %o = sub(%n, %p) : f32[batch, 3, {1}, 2]\n"
          "  return %s, %v, %y, %o\n"
          "}}\n",
          dtype, length);
      auto graph = Parse(text);
      ASSERT_TRUE(graph.has_value()) << graph.error().message;
      graphs.push_back(*std::move(graph));
    }
    const auto compiled = CompiledGraphs::Make(Pointers(graphs), GpuOrItsText());
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    for (const int64_t batch : {0, 1, 5}) {
      std::vector<std::vector<ReferenceTensor>> inputs;
      for (size_t i = 0; i < graphs.size(); ++i) {
        inputs.push_back(RandomInputs(*graphs[i], i + 1, {{"batch", batch}}));
        std::vector<double>& x = inputs[i][0].reals;
        for (int64_t row = 1; row < batch && !x.empty(); row += 2) {
          x[(row + 1) * x.size() / batch - 1] = row % 4 == 1 ? INFINITY : NAN;
        }
      }
      const auto found = (*compiled)->Run(inputs);
      ASSERT_TRUE(found.has_value()) << found.error().message;
      for (size_t i = 0; i < graphs.size(); ++i) {
        const auto expected = Interpret(*graphs[i], inputs[i]);
        ASSERT_TRUE(expected.has_value()) << expected.error().message;
        const auto rounded = InterpretRounded(*graphs[i], inputs[i]);
        ASSERT_TRUE(rounded.has_value()) << rounded.error().message;
        EXPECT_EQ(FirstWrong(*expected, *rounded, (*found)[i], tolerance), "")
            << dtype << " graph " << i << " batch " << batch;
      }
    }
  }
}

// Puts one out-of-range value into every index input of the graph. Returns whether there was such an input.
bool SpoilIndices(uint64_t seed, std::vector<ReferenceTensor>& inputs) {
  bool spoiled = false;
  for (ReferenceTensor& input : inputs) {
    if (IsFloat(input.dtype) || input.ints.empty()) continue;
    input.ints[seed % input.ints.size()] = seed % 2 == 0 ? 1000 : -2000000000;
    spoiled = true;
  }
  return spoiled;
}

// With out-of-range indices in one graph at a time, the program must not crash, and may report an error only if the interpreter does. (The
// program computes only what is needed; the interpreter computes everything.)
int ComplaintsOf(ArrayRef<uint64_t> seeds, RunOn where) {
  const auto graphs = Graphs(seeds, Dtype::kF32);
  const auto compiled = CompiledGraphs::Make(Pointers(graphs), where);
  EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
  std::vector<std::vector<ReferenceTensor>> good;
  for (size_t i = 0; i < graphs.size(); ++i) {
    good.push_back(RandomInputs(*graphs[i], seeds[i], {{"batch", 5}, {"items", 3}}));
  }
  int complaints = 0;
  for (size_t i = 0; i < graphs.size(); ++i) {
    const NowTrying trying(seeds[i], *graphs[i]);
    auto inputs = good;
    if (!SpoilIndices(seeds[i], inputs[i])) continue;
    const auto found = (*compiled)->Run(inputs);
    const auto expected = Interpret(*graphs[i], inputs[i]);
    if (!found) {
      ++complaints;
      EXPECT_EQ(found.error().kind, ErrorKind::kInput) << found.error().message;
      EXPECT_FALSE(expected.has_value()) << found.error().message;
    } else if (expected && !MergedWeightsMeetInfinities(*graphs[i], inputs[i])) {
      const auto rounded = InterpretRounded(*graphs[i], inputs[i]);
      EXPECT_EQ(FirstWrong(*expected, *rounded, (*found)[i], 1e-5), "");
    }
  }
  return complaints;
}

TEST(CodegenProperty, BadIndicesNeverCrash) {
  for (const auto& seeds : Batches(SeedsToRun(20))) {
    EXPECT_GT(ComplaintsOf(seeds, RunOn::kCpu), 0);
    EXPECT_GT(ComplaintsOf(seeds, GpuOrItsText()), 0);
  }
}

// There is no element 0 to read instead.
TEST(CodegenProperty, BadIndexOfAnEmptyTable) {
  const auto graph = Parse(R"(
graph @g(%table "table": f32[items, 4], %ids "ids": i64[batch]) symbols(batch in 0..8, items in 0..8) {
  %y = gather(%table, %ids) {axis = 0} : f32[batch, 4]
  return %y "y"
})");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  for (const RunOn where : {RunOn::kCpu, GpuOrItsText()}) {
    const auto compiled = CompiledGraphs::Make({graph->get()}, where);
    ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
    const auto found = (*compiled)->Run({{ReferenceTensor(Dtype::kF32, {0, 4}), ReferenceTensor(Dtype::kI64, {3})}});
    ASSERT_FALSE(found.has_value());
    EXPECT_EQ(found.error().message, "node \"gather\": index 0 at position [0] of \"g0_ids\" reads an empty axis");
    EXPECT_TRUE((*compiled)->Run({{ReferenceTensor(Dtype::kF32, {0, 4}), ReferenceTensor(Dtype::kI64, {0})}}).has_value());
  }
}

std::string GpuModule(const Graph& graph) {
  std::vector<IndexSite> sites;
  const auto plan = PlanProgram(graph, {TargetKind::kGpu, "highest", &GpuFor("sm_90a")}, sites);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return EmitGpuModule(FunctionsOf(*plan), {});
}

TEST(CodegenProperty, PlansForGpu) {
  for (const uint64_t seed : SeedsToRun(300)) {
    const auto graph = RandomGraph(seed);
    const NowTrying trying(seed, *graph);
    PassManager manager;
    ASSERT_TRUE(manager.Run(*graph, PipelinePasses(TargetKind::kGpu)).has_value());
    const std::string text = GpuModule(*graph);
    ASSERT_EQ(text, GpuModule(*graph)) << "the text differs from run to run";
  }
}

TEST(CodegenProperty, NvrtcTakesGpuModules) {
  const auto nvrtc = runtime::Nvrtc::Get();
  ASSERT_TRUE(nvrtc) << nvrtc.error().message;
  const std::vector<Dtype> dtypes = {Dtype::kF32, Dtype::kF16, Dtype::kBF16};
  size_t number = 0;
  for (const auto& seeds : Batches(SeedsToRun(60))) {
    auto graphs = Graphs(seeds, dtypes[number % 3]);
    for (auto& graph : graphs) {
      PassManager manager;
      ASSERT_TRUE(manager.Run(*graph, PipelinePasses(TargetKind::kGpu)).has_value());
    }
    const char* arch = std::vector<const char*>{"sm_80", "sm_90a", "sm_100"}[number++ % 3];
    const auto cubin = runtime::CompileCached("kernels.cu", GpuModule(*SideBySide(Pointers(graphs))), arch);
    ASSERT_TRUE(cubin) << "seeds from " << seeds[0] << ": " << cubin.error().message;
  }
}

}  // namespace
}  // namespace fusec
