#include "compiler/import/import.h"
#include "compiler/reference/interpreter.h"
#include "tests/conformance/backend.h"

namespace fusec {
namespace {

class InterpreterBackend : public Backend {
 public:
  explicit InterpreterBackend(std::unique_ptr<Graph> graph) : graph_(std::move(graph)) {}

  Result<std::vector<TensorData>> Run(const std::vector<TensorData>& inputs) override {
    std::vector<ReferenceTensor> tensors;
    for (const TensorData& input : inputs) tensors.push_back(ReferenceTensor::FromData(input));
    FUSEC_ASSIGN(const std::vector<ReferenceTensor> results, Interpret(*graph_, tensors));
    std::vector<TensorData> outputs;
    for (const ReferenceTensor& result : results) outputs.push_back(result.ToData());
    return outputs;
  }

 private:
  std::unique_ptr<Graph> graph_;
};

}  // namespace

Result<std::unique_ptr<Backend>> OpenInterpreter(const std::string& model_path,
                                                 const FrozenInputs& frozen) {
  FUSEC_ASSIGN(ImportedModel model, ImportOnnx(model_path, {.frozen_inputs = frozen}));
  FUSEC_TRY(Verify(*model.graph));
  return std::make_unique<InterpreterBackend>(std::move(model.graph));
}

}  // namespace fusec
