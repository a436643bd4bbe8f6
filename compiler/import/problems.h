#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/support/result.h"

namespace onnx {
class NodeProto;
}

namespace fusec {

// `node "/fc/Gemm" (Gemm)`; a node without a name is named after its result: `node producing "y"
// (Gemm)`.
std::string NodeLabel(const onnx::NodeProto& node);

// Collects all problems of a model, so that one run reports all of them.
class Problems {
 public:
  explicit Problems(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }

  // `message` without the file's name.
  void Add(const std::string& message) { lines_.push_back(message); }
  // The same for a node's error. The first `fitting_dim` is kept as size_problem().
  void Add(const std::string& message, const std::optional<FittingDim>& fitting_dim);
  // The first problem that would not occur with other sizes of a dim.
  struct SizeProblem {
    std::string message;
    FittingDim fitting_dim;
  };
  const std::optional<SizeProblem>& size_problem() const { return size_problem_; }
  // Adds a node whose op is not supported. `opset` 0 means that the model imports no opset of the
  // op's domain.
  void AddUnsupported(const onnx::NodeProto& node, int64_t opset);

  // Appends the messages of `more`.
  void Append(const Problems& more);

  bool empty() const { return lines_.empty() && unsupported_.empty(); }
  // All problems as one error: a line that lists all unsupported ops, then one line for each other
  // problem; after kMaxLines lines, `and N more`.
  Result<void> ToResult() const;

 private:
  static constexpr size_t kMaxLines = 20;
  static constexpr size_t kMaxNodesPerOp = 5;
  struct UnsupportedOp {
    std::string op;  // "Conv (ai.onnx, opset 17)"
    std::vector<std::string> nodes;
  };
  std::string UnsupportedLine() const;

  std::string path_;
  std::vector<std::string> lines_;
  std::optional<SizeProblem> size_problem_;
  std::vector<UnsupportedOp> unsupported_;  // in order of first appearance
};

}  // namespace fusec
