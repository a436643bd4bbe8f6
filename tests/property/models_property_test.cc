// Every model of models/ with the kernels planned for a GPU, against the interpreter: under fibers where there is no GPU.
#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/import/import.h"
#include "compiler/reference/interpreter.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/random_graph.h"
#include "tests/property/run_settings.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(FUSEC_SOURCE_DIR "/models")) {
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class ModelsProperty : public testing::TestWithParam<std::string> {};

TEST_P(ModelsProperty, GpuAnswersMatch) {
  auto model = ImportOnnx(FUSEC_SOURCE_DIR "/models/" + GetParam() + ".onnx", {});
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const Graph& graph = *model->graph;
  const auto compiled = CompiledGraphs::Make({&graph}, GpuOrItsText());
  ASSERT_TRUE(compiled.has_value()) << compiled.error().message;
  for (const int64_t batch : {1, 7}) {
    auto inputs = RandomInputs(graph, 1, {{graph.symbols[0].name, batch}});
    for (ReferenceTensor& input : inputs) {
      for (int64_t& id : input.ints) id = std::abs(id) % 3;  // every table has that many rows
    }
    const auto found = (*compiled)->Run({inputs});
    ASSERT_TRUE(found.has_value()) << found.error().message;
    const auto expected = Interpret(graph, inputs);
    ASSERT_TRUE(expected.has_value()) << expected.error().message;
    const auto rounded = InterpretRounded(graph, inputs);
    ASSERT_TRUE(rounded.has_value()) << rounded.error().message;
    EXPECT_EQ(FirstWrong(*expected, *rounded, (*found)[0], 1e-5), "") << "batch " << batch;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ModelsProperty, testing::ValuesIn(ModelNames()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace fusec
