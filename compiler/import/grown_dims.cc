#include "compiler/import/grown_dims.h"

#include <onnx/onnx_pb.h>

#include <map>
#include <vector>

namespace fusec {

namespace {

struct Growth {
  int operand = 0;
  int64_t axis = 0;  // from the end if negative
};

// The operands of `node` to which it appends.
std::vector<Growth> GrowthsOf(const onnx::NodeProto& node) {
  const bool is_contrib = !node.domain().empty();
  if (node.op_type() == "Concat" && node.input_size() > 1) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.name() == "axis") return {{0, attribute.i()}};
    }
  }
  if (node.op_type() == "Attention" && is_contrib) return {{4, 3}};
  if (node.op_type() == "Attention") return {{4, 2}, {5, 2}};
  if (node.op_type() == "MultiHeadAttention") return {{6, 2}, {7, 2}};
  if (node.op_type() == "GroupQueryAttention") return {{3, 2}, {4, 2}};
  if (node.op_type() == "QAttention") return {{8, 3}};
  return {};
}

}  // namespace

std::set<std::string> GrownDims(const onnx::GraphProto& graph) {
  std::map<std::string, const onnx::TensorShapeProto*> inputs;
  for (const auto& input : graph.input())
    inputs.emplace(input.name(), &input.type().tensor_type().shape());
  std::set<std::string> grown;
  for (const onnx::NodeProto& node : graph.node()) {
    for (const Growth& growth : GrowthsOf(node)) {
      if (growth.operand >= node.input_size()) continue;
      const auto input = inputs.find(node.input(growth.operand));
      if (input == inputs.end()) continue;
      const int64_t rank = input->second->dim_size();
      const int64_t axis = growth.axis < 0 ? growth.axis + rank : growth.axis;
      if (axis < 1 || axis >= rank) continue;  // axis 0 is that of the batch
      const std::string& name = input->second->dim(static_cast<int>(axis)).dim_param();
      if (!name.empty()) grown.insert(name);
    }
  }
  return grown;
}

}  // namespace fusec
