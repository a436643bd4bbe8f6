#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/kernel/kernel_plan.h"
#include "compiler/reference/conditioning.h"

namespace fusec {

// A model of a folder, with the interpreter's answers. The folder has `model.onnx` and `set_N/input_N.pb`; if another implementation ran
// the model, also `set_N/output_N.pb`, and the name of the implementation in `judge.txt`.
class JudgedModel {
 public:
  // Errors: the model is unsupported (kModel), or rejects its inputs (kInput).
  static Result<JudgedModel> Read(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const Graph& graph() const { return *graph_; }
  size_t set_count() const { return inputs_.size(); }
  const std::vector<ReferenceTensor>& inputs(size_t set) const { return inputs_[set]; }

  // The graph after all passes for the kind of target, with its run-time sizes as an ordinary
  // output.
  Result<std::unique_ptr<Graph>> Fused(TargetKind target) const;

  // Compares the answers of a compiled graph (the outputs, then the run-time sizes) with the interpreter's.
  void Judge(size_t set, const std::string& judge, std::vector<ReferenceTensor> found);
  // Compares the answers of the other implementation, if there are any, with the interpreter's.
  Result<void> JudgeOther();

  // {"model", "verdict": "right" or "wrong", "elements", "unjudged"}; "wrong" has "judge" and
  // "reason", too.
  nlohmann::json Verdict() const;

 private:
  void Add(const std::string& judge, size_t set, const Comparison& comparison);

  std::string folder_;
  std::unique_ptr<Graph> graph_;
  std::vector<std::vector<ReferenceTensor>> inputs_, expected_;  // by set
  int64_t elements_ = 0, unjudged_ = 0;
  std::string judge_, reason_;  // describe the first wrong answer
};

}  // namespace fusec
