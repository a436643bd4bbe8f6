#include "compiler/import/problems.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

#include "compiler/import/names.h"

namespace fusec {
namespace {

std::string QuotedName(const onnx::NodeProto& node) {
  const bool unnamed = node.name().empty() && node.output_size() > 0;
  return "\"" + (unnamed ? node.output(0) : node.name()) + "\"";
}

std::string OpLabel(const onnx::NodeProto& node, int64_t opset) {
  const std::string version = std::to_string(opset);
  if (node.domain().empty()) return node.op_type() + " (ai.onnx, opset " + version + ")";
  return node.op_type() + " (" + node.domain() + (opset > 0 ? " " + version : "") + ")";
}

}  // namespace

std::string NodeLabel(const onnx::NodeProto& node) {
  return (node.name().empty() ? "node producing " : "node ") + QuotedName(node) + " (" +
         node.op_type() + ")";
}

void Problems::AddUnsupported(const onnx::NodeProto& node, int64_t opset) {
  const std::string op = OpLabel(node, opset);
  auto group = std::find_if(unsupported_.begin(), unsupported_.end(),
                            [&](const UnsupportedOp& known) { return known.op == op; });
  if (group == unsupported_.end()) group = unsupported_.insert(group, UnsupportedOp{op, {}});
  group->nodes.push_back(QuotedName(node));
}

void Problems::Add(const std::string& message, const std::optional<FittingDim>& fitting_dim) {
  lines_.push_back(message);
  if (fitting_dim && !size_problem_) size_problem_ = SizeProblem{message, *fitting_dim};
}

void Problems::Append(const Problems& more) {
  lines_.insert(lines_.end(), more.lines_.begin(), more.lines_.end());
}

std::string Problems::UnsupportedLine() const {
  std::string line = std::to_string(unsupported_.size()) + " unsupported op" +
                     (unsupported_.size() == 1 ? "" : "s");
  const char* separator = ": ";
  for (const UnsupportedOp& group : unsupported_) {
    line += separator + group.op + (group.nodes.size() == 1 ? ": node " : ": nodes ");
    const size_t shown = std::min(group.nodes.size(), kMaxNodesPerOp);
    for (size_t i = 0; i < shown; ++i) line += (i > 0 ? ", " : "") + group.nodes[i];
    if (shown < group.nodes.size()) {
      line += " and " + std::to_string(group.nodes.size() - shown) + " more";
    }
    separator = "; ";
  }
  return line;
}

Result<void> Problems::ToResult() const {
  if (empty()) return {};
  std::vector<std::string> lines;
  if (!unsupported_.empty()) lines.push_back(UnsupportedLine());
  lines.insert(lines.end(), lines_.begin(), lines_.end());
  std::string message;
  for (size_t i = 0; i < std::min(lines.size(), kMaxLines); ++i) {
    message += (i > 0 ? "\n" : "") + path_ + ": " + PrintableLine(lines[i]);
  }
  if (lines.size() > kMaxLines) {
    message += "\nand " + std::to_string(lines.size() - kMaxLines) + " more";
  }
  return ModelError(message);
}

}  // namespace fusec
