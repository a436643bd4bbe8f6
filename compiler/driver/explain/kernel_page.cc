#include "compiler/driver/explain/kernel_page.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

std::string Section(const std::string& title) {
  return "\n" + Bold("-- " + title + " --") + "\n\n";
}

}  // namespace

std::string NodesText(const Node& region) {
  std::vector<Origin> origins;
  std::vector<std::string> ops;  // by origin
  for (const auto& node : region.body->nodes) {
    for (const Origin& origin : node->provenance) {
      size_t i =
          static_cast<size_t>(std::find(origins.begin(), origins.end(), origin) - origins.begin());
      if (i == origins.size()) {
        origins.push_back(origin);
        ops.emplace_back();
      }
      ops[i] += (ops[i].empty() ? "" : ", ") + std::string(GetOpDef(node->kind).text);
    }
  }
  std::vector<std::vector<std::string>> rows = {{"node", "op", "module", "line", "became"}};
  for (size_t i = 0; i < origins.size(); ++i) {
    const Origin& origin = origins[i];
    rows.push_back(
        {origin.onnx_node, origin.onnx_op, origin.module_path, origin.source_line, ops[i]});
  }
  if (origins.empty()) return "  none: all of its ops were made by the compiler\n";
  return FormatTable(rows, "lllll");
}

Result<std::string> KernelPage(const std::string& artifact, const std::string& target,
                               const Explanation::FoundStep& found) {
  const ExplainedStep& step = *found.step;
  const Node& region = *found.region;
  std::string page = Section("ONNX nodes") + NodesText(region);
  const std::unique_ptr<Graph> body = region.body->Clone();
  for (const auto& node : body->nodes) node->provenance.clear();  // NodesText has it
  page += Section("IR of the region, before it was planned") + Print(*body);
  if (step.code.source.empty()) {
    return page + Section("code") + "  a matrix product of the library (" +
           (target == "cpu" ? "oneDNN" : "cuBLASLt") + "), which needs no generated code\n";
  }
  FUSEC_ASSIGN(const std::string code, KernelText(artifact, step.code));
  return page + Section("code, " + step.code.source) + code;
}

}  // namespace fusec
