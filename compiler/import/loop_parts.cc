#include "compiler/import/loop_parts.h"

#include "compiler/import/subgraph.h"

namespace fusec {

Result<LoopParts> PartsOfLoop(const onnx::NodeProto& node, const NodeContext& context) {
  LoopParts parts;
  parts.body = SubgraphOf(node, "body");
  parts.is_scan = node.op_type() == "Scan";
  if (parts.is_scan) parts.scanned = static_cast<int>(context.Int("num_scan_inputs", 0));
  parts.first = parts.is_scan ? 0 : 2;
  parts.own = parts.is_scan ? 0 : 2;
  parts.kept = parts.is_scan ? 0 : 1;
  parts.carried = node.input_size() - parts.first - parts.scanned;
  if (parts.body == nullptr || parts.carried < 0 ||
      parts.body->input_size() != parts.own + parts.carried + parts.scanned ||
      parts.body->output_size() != parts.kept + node.output_size() ||
      node.output_size() < parts.carried) {
    return ModelError("the numbers of its inputs, outputs and body's values do not match");
  }
  return parts;
}

int64_t ScanAttribute(const NodeContext& context, const std::string& name, int i) {
  const std::vector<int64_t> list = context.Ints(name);
  return static_cast<size_t>(i) < list.size() ? list[i] : 0;
}

int64_t ScanAxis(const NodeContext& context, int i, const Value& input) {
  const int64_t axis = ScanAttribute(context, "scan_input_axes", i);
  return axis < 0 ? axis + input.type.rank() : axis;
}

}  // namespace fusec
