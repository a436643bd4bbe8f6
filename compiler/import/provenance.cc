#include "compiler/import/provenance.h"

#include <onnx/onnx_pb.h>

#include <string_view>

#include "compiler/import/names.h"

namespace fusec {
namespace {

std::string_view Metadata(const onnx::NodeProto& node, std::string_view key) {
  for (const auto& entry : node.metadata_props()) {
    if (entry.key() == key) return entry.value();
  }
  return {};
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// The last scope that is a module: the list ends in the operation itself.
std::string InnermostModule(ArrayRef<std::string_view> scopes) {
  return scopes.size() < 2 ? "" : std::string(scopes[scopes.size() - 2]);
}

// "['', 'top', 'top.0', 'linear']" -> "top.0"
std::string ModuleOfNameScopes(std::string_view text) {
  std::vector<std::string_view> scopes;
  const std::vector<std::string_view> pieces = Split(text, '\'');
  for (size_t i = 1; i < pieces.size(); i += 2) scopes.push_back(pieces[i]);
  return InnermostModule(scopes);
}

// ": m.Net/top: t.Sequential/top.0: t.Linear/linear: aten.linear.default" -> "top.0"
std::string ModuleOfNamespace(std::string_view text) {
  std::vector<std::string_view> scopes;
  for (const std::string_view scope : Split(text, '/')) {
    scopes.push_back(scope.substr(0, scope.find(':')));
  }
  return InnermostModule(scopes);
}

// "/layers/layers.0/linear/Gemm" -> "layers.0.linear"
std::string ModuleOfNodeName(std::string_view name) {
  return ScopePath(name.substr(0, name.find_last_of('/')));
}

// Frames read `File "workloads.py", line 51, in forward`, the innermost last.
std::string InnermostUserLine(std::string_view stack_trace) {
  std::string line;
  for (std::string_view frame : Split(stack_trace, '\n')) {
    const size_t path_begin = frame.find("File \"");
    if (path_begin == std::string_view::npos) continue;
    frame.remove_prefix(path_begin + 6);
    const std::string_view path = frame.substr(0, frame.find('"'));
    const size_t number = frame.find("\", line ");
    if (number == std::string_view::npos) continue;
    const bool inside_torch =
        path.starts_with("torch/") || path.find("-packages/torch/") != std::string_view::npos;
    if (inside_torch) continue;
    std::string_view digits = frame.substr(number + 8);
    digits = digits.substr(0, digits.find_first_not_of("0123456789"));
    line = std::string(path.substr(path.find_last_of('/') + 1)) + ":" + std::string(digits);
  }
  return line;
}

}  // namespace

Origin OriginOf(const onnx::NodeProto& node) {
  const bool unnamed = node.name().empty() && node.output_size() > 0;
  Origin origin{.onnx_node = PrintableLine(unnamed ? node.output(0) : node.name()),
                .onnx_op = node.op_type()};
  const std::string_view name_scopes = Metadata(node, "pkg.torch.onnx.name_scopes");
  const std::string_view module_namespace = Metadata(node, "namespace");
  if (!name_scopes.empty()) {
    origin.module_path = ModuleOfNameScopes(name_scopes);
  } else if (!module_namespace.empty()) {
    origin.module_path = ModuleOfNamespace(module_namespace);
  } else {
    origin.module_path = ModuleOfNodeName(node.name());
  }
  origin.module_path = PrintableLine(origin.module_path);
  origin.source_line =
      PrintableLine(InnermostUserLine(Metadata(node, "pkg.torch.onnx.stack_trace")));
  return origin;
}

}  // namespace fusec
