#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "compiler/driver/artifact/tensor_files.h"
#include "compiler/import/import.h"
#include "compiler/reference/interpreter.h"

namespace fusec {
namespace {

const std::string kModels = FUSEC_SOURCE_DIR "/models/";

class Models : public testing::TestWithParam<std::string> {};

// The interpreter computes in double, PyTorch in f32: sums of at most a few thousand products of
// numbers around 1 agree to 1e-5.
TEST_P(Models, InterpretedAnswersAreTheGoldenOnes) {
  const std::string file = GetParam();
  const auto model = ImportOnnx(kModels + file, {});
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_TRUE(Verify(*model->graph)) << Verify(*model->graph).error().message;
  const auto members = ReadNpz(kModels + file.substr(0, file.find('.')) + ".golden.npz");
  ASSERT_TRUE(members) << members.error().message;
  const std::map<std::string, TensorData> arrays(members->begin(), members->end());
  for (const std::string batch : {"b1", "b5", "b64"}) {
    std::vector<ReferenceTensor> inputs;
    for (size_t i = 0; i < model->graph->inputs.size(); ++i) {
      inputs.push_back(ReferenceTensor::FromData(arrays.at(batch + "_in" + std::to_string(i))));
    }
    const auto outputs = Interpret(*model->graph, inputs);
    ASSERT_TRUE(outputs) << outputs.error().message;
    for (size_t i = 0; i < outputs->size(); ++i) {
      const TensorData& golden = arrays.at(batch + "_out" + std::to_string(i));
      ASSERT_EQ((*outputs)[i].element_count(), golden.element_count());
      for (int64_t k = 0; k < golden.element_count(); ++k) {
        const double expected = golden.GetDouble(k);
        ASSERT_NEAR((*outputs)[i].Real(k), expected, 1e-5 * (1 + std::abs(expected))) << batch;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Models,
                         testing::Values("dlrm_dot.dynamo.onnx", "dlrm_dot.ts.onnx",
                                         "lecture_dlrm.dynamo.onnx", "lecture_dlrm.ts.onnx",
                                         "lola.dynamo.onnx", "lola.ts.onnx",
                                         "lora_block.dynamo.onnx", "lora_block.ts.onnx",
                                         "lora_mlp.dynamo.onnx", "lora_mlp.ts.onnx",
                                         "lora_mlp_256.dynamo.onnx", "lora_mlp_256.ts.onnx"));

}  // namespace
}  // namespace fusec
