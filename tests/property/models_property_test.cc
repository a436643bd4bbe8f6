// Every model of models/ and end_to_end/models/ with the kernels planned for a GPU, compared with the interpreter; without a GPU, fibers
// run as the threads.
#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/driver/build/pipeline.h"
#include "compiler/import/import.h"
#include "compiler/reference/interpreter.h"
#include "compiler/reference/true_sizes.h"
#include "passes/pass_manager.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/random_graph.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> ModelFiles() {
  std::vector<std::string> files;
  for (const char* folder : {"/models", "/tests/end_to_end/models"}) {
    for (const auto& entry : fs::directory_iterator(std::string(FUSEC_SOURCE_DIR) + folder)) {
      if (entry.path().extension() == ".onnx") files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The first symbol is the batch; others get 5, or what comes nearest in their range.
std::map<std::string, int64_t> Sizes(const Graph& graph, int64_t batch) {
  std::map<std::string, int64_t> sizes;
  for (const DimSymbol& symbol : graph.symbols) {
    sizes[symbol.name] = sizes.empty() ? batch : std::clamp<int64_t>(5, symbol.low, symbol.high);
  }
  return sizes;
}

// Ids below `rows`: most tables have 3, all have 1. Masks are 0 or 1.
void LimitIds(std::vector<ReferenceTensor>& inputs, int64_t rows) {
  for (ReferenceTensor& input : inputs) {
    const int64_t end = input.dtype == Dtype::kBool ? 2 : rows;
    for (int64_t& id : input.ints) id = std::abs(id) % end;
  }
}

class ModelsProperty : public testing::TestWithParam<std::string> {};

// Runs `compiled` at two batches, and expects the interpreter's answers for `graph`.
void ExpectAnswers(CompiledGraphs& compiled, const Graph& graph) {
  for (const int64_t batch : {1, 7}) {
    auto inputs = RandomInputs(graph, 1, Sizes(graph, batch));
    LimitIds(inputs, 3);
    auto expected = Interpret(graph, inputs);
    if (!expected) {
      LimitIds(inputs, 1);
      expected = Interpret(graph, inputs);
    }
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    auto found = compiled.Run({inputs});
    ASSERT_TRUE(found.has_value()) << found.error().message;
    auto rounded = InterpretRounded(graph, inputs);
    ASSERT_TRUE(rounded.has_value()) << rounded.error().message;
    TakeTrueSizes(graph, (*found)[0]);
    TakeTrueSizes(graph, *rounded);
    EXPECT_EQ(FirstWrong(*expected, *rounded, (*found)[0], 1e-5), "") << "batch " << batch;
  }
}

TEST_P(ModelsProperty, GpuAnswersMatch) {
  auto model = ImportOnnx(GetParam(), {});
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const auto compiled = CompiledGraphs::Make({model->graph.get()}, GpuOrItsText());
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  ExpectAnswers(**compiled, *model->graph);
}

// The inputs that begin with the first symbol, but for the last of several.
PerRequest InputsOfRequest(const ImportedModel& model) {
  PerRequest per_request;
  const Graph& graph = *model.graph;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Shape& shape = graph.inputs[i]->type.shape;
    const std::string& name = graph.InputName(i);
    const bool is_of_bags = model.totals.of_lengths.count(name) + model.totals.of_offsets.count(name) > 0;
    if (is_of_bags || shape.empty() || graph.symbols.empty() || shape[0].AsSymbol() != graph.symbols[0].name) continue;
    per_request.inputs.push_back(name);
  }
  if (per_request.inputs.size() > 1) per_request.inputs.pop_back();
  else per_request.is_mapped = true;
  return per_request;
}

TEST_P(ModelsProperty, GpuAnswersMatchPerRequest) {
  auto model = ImportOnnx(GetParam(), {});
  ASSERT_TRUE(model.has_value()) << model.error().message;
  Graph& graph = *model->graph;
  PassManager manager;
  manager.options.per_request = InputsOfRequest(*model);
  if (manager.options.per_request.inputs.empty()) return;  // it has no batch
  const auto declared = DeclarePerRequest(graph, manager.options.per_request, {"requests_of_test"});
  ASSERT_TRUE(declared.has_value()) << declared.error().message;
  const auto split = graph.Clone();
  const auto ran = manager.Run(*split, SharedPasses());
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  const auto compiled = CompiledGraphs::Make({split.get()}, GpuOrItsText(), FusionPasses(TargetKind::kGpu));
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  ExpectAnswers(**compiled, graph);
}

INSTANTIATE_TEST_SUITE_P(All, ModelsProperty, testing::ValuesIn(ModelFiles()), [](const auto& info) {
  std::string name = fs::path(info.param).stem();
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace fusec
