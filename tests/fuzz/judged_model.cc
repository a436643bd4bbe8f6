#include "tests/fuzz/judged_model.h"

#include <fmt/format.h>

#include <filesystem>

#include "compiler/driver/build/pipeline.h"
#include "compiler/import/import.h"
#include "compiler/import/tensor_file.h"
#include "compiler/reference/interpreter.h"
#include "compiler/reference/true_sizes.h"
#include "compiler/support/gpu.h"
#include "compiler/support/read_file.h"
#include "passes/pass_manager.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

std::string TensorPath(const std::string& folder, size_t set, const char* kind, size_t number) {
  return fmt::format("{}/set_{}/{}_{}.pb", folder, set, kind, number);
}

Result<std::vector<ReferenceTensor>> ReadInputs(const std::string& folder, size_t set,
                                                const Graph& graph) {
  std::map<std::string, TensorData> given;
  for (size_t i = 0; fs::exists(TensorPath(folder, set, "input", i)); ++i) {
    FUSEC_ASSIGN(NamedTensor tensor, ReadTensorFile(TensorPath(folder, set, "input", i)));
    given[tensor.name] = std::move(tensor.data);
  }
  std::vector<ReferenceTensor> inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const auto found = given.find(graph.InputName(i));
    if (found == given.end()) {
      return Fail(ErrorKind::kUsage,
                  fmt::format("{}: set {} has no input \"{}\"", folder, set, graph.InputName(i)));
    }
    inputs.push_back(ReferenceTensor::FromData(found->second));
  }
  return inputs;
}

}  // namespace

Result<JudgedModel> JudgedModel::Read(const std::string& folder) {
  JudgedModel model;
  model.folder_ = folder;
  FUSEC_ASSIGN(ImportedModel imported, ImportOnnx(folder + "/model.onnx", {}));
  model.graph_ = std::move(imported.graph);
  FUSEC_TRY(Verify(*model.graph_));
  for (size_t set = 0; fs::exists(fmt::format("{}/set_{}", folder, set)); ++set) {
    FUSEC_ASSIGN(auto inputs, ReadInputs(folder, set, *model.graph_));
    FUSEC_ASSIGN(auto expected, Interpret(*model.graph_, inputs));
    model.inputs_.push_back(std::move(inputs));
    model.expected_.push_back(std::move(expected));
  }
  return model;
}

Result<std::unique_ptr<Graph>> JudgedModel::Fused(TargetKind target) const {
  auto fused = graph_->Clone();
  PassManager manager;
  if (target == TargetKind::kGpu)
    manager.options.block_shared_bytes = GpuFor("sm_90a").block_shared_bytes;
  FUSEC_TRY(manager.Run(*fused, PipelinePasses(target)));
  fused->run_time_sizes.clear();
  return fused;
}

void JudgedModel::Judge(size_t set, const std::string& judge, std::vector<ReferenceTensor> found) {
  const std::vector<ReferenceTensor>& expected = expected_[set];
  TakeTrueSizes(*graph_, found);
  OutputJudge outputs(*graph_, inputs_[set], expected);
  for (size_t i = 0; i < expected.size(); ++i) {
    const Tolerance tolerance = ToleranceOf(CoarsestDtype(graph_->outputs[i]), "highest");
    Add(judge, set, outputs.Judge(i, graph_->OutputName(i), found[i].ToData(), tolerance));
  }
}

Result<void> JudgedModel::JudgeOther() {
  const std::string path = folder_ + "/judge.txt";
  if (!fs::exists(path)) return {};
  FUSEC_ASSIGN(const std::string judge, ReadWholeFile(path, ErrorKind::kUsage));
  for (size_t set = 0; set < inputs_.size(); ++set) {
    OutputJudge outputs(*graph_, inputs_[set], expected_[set]);
    for (size_t i = 0; i < expected_[set].size(); ++i) {
      FUSEC_ASSIGN(const NamedTensor other, ReadTensorFile(TensorPath(folder_, set, "output", i)));
      const Dtype dtype = CoarsestDtype(graph_->outputs[i]);
      // Some f64 kernels of the other implementation compute in f32.
      Tolerance tolerance = ToleranceOf(dtype == Dtype::kF64 ? Dtype::kF32 : dtype, "highest");
      tolerance.relative_l2 *= 4;  // its kernels round where fusec's do not
      Comparison comparison = outputs.Judge(i, other.name, other.data, tolerance);
      // Its sigmoid and some other functions have a limited absolute, not relative, accuracy.
      comparison.pass |= comparison.misplaced == 0 && comparison.max_abs <= tolerance.relative_l2;
      Add(judge, set, comparison);
    }
  }
  return {};
}

void JudgedModel::Add(const std::string& judge, size_t set, const Comparison& comparison) {
  if (judge == "cpu" || judge == "gpu-text") {
    elements_ += comparison.elements;
    unjudged_ += comparison.unjudged;
  }
  if (comparison.pass || !judge_.empty()) return;
  judge_ = judge;
  reason_ = fmt::format(
      "set {}, output \"{}\": {}; relative L2 {:.3g}, tolerance {:.3g}, element {} is {}, expected "
      "{}",
      set, comparison.name, comparison.note, comparison.rel_l2, comparison.tolerance.relative_l2,
      IndexText(comparison.worst_index), comparison.worst_found, comparison.worst_expected);
}

nlohmann::json JudgedModel::Verdict() const {
  nlohmann::json verdict = {{"model", folder_},
                            {"verdict", judge_.empty() ? "right" : "wrong"},
                            {"elements", elements_},
                            {"unjudged", unjudged_}};
  if (!judge_.empty()) {
    verdict["judge"] = judge_;
    verdict["reason"] = reason_;
  }
  return verdict;
}

}  // namespace fusec
