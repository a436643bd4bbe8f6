#include "compiler/import/subgraph.h"

namespace fusec {

const onnx::GraphProto* SubgraphOf(const onnx::NodeProto& node, const std::string& attribute) {
  for (const onnx::AttributeProto& candidate : node.attribute()) {
    if (candidate.name() == attribute && candidate.has_g()) return &candidate.g();
  }
  return nullptr;
}

Result<std::vector<Named>> InlineSubgraph(const onnx::GraphProto& body,
                                          const std::vector<Named>& inputs, ImportState& state,
                                          const Scope& scope) {
  if (body.input_size() != static_cast<int>(inputs.size())) {
    return ModelError("its subgraph has " + std::to_string(body.input_size()) +
                      " inputs, expected " + std::to_string(inputs.size()));
  }
  constexpr int64_t kMostNodes = 200'000;
  state.inlined_nodes += 1 + body.node_size();
  if (state.inlined_nodes > kMostNodes) {
    return ModelError("its loops and branches make a graph of more than " +
                      std::to_string(kMostNodes) + " nodes");
  }
  Scope inner(&scope);
  for (int i = 0; i < body.input_size(); ++i) inner.Define(body.input(i).name(), inputs[i]);
  onnx::GraphProto copy = body;  // import moves the constants' data out of it
  ImportInitializers(copy, {}, state, inner);
  ImportNodes(copy, state, inner);
  std::vector<Named> outputs;
  for (const onnx::ValueInfoProto& output : body.output()) {
    if (!inner.Knows(output.name())) {
      return ModelError("no node of its subgraph makes \"" + output.name() + "\"");
    }
    std::optional<Named> found = inner.Find(output.name());
    if (!found) return ModelError("");
    outputs.push_back(*std::move(found));
  }
  return outputs;
}

Result<Value*> PartOf(Builder& builder, Value* value, int64_t axis, const Expr& start,
                      const Expr& length, bool keeps_axis) {
  Shape shape = value->type.shape;
  Exprs starts(shape.size(), Expr(0));
  starts[axis] = start;
  shape[axis] = length;
  FUSEC_ASSIGN(Node * slice, builder.Add(OpKind::kSlice, {value},
                                         {{"starts", starts},
                                          {"steps", std::vector<int64_t>(shape.size(), 1)},
                                          {"shape", shape}}));
  if (keeps_axis) return slice->result();
  shape.erase(shape.begin() + axis);
  return builder.Make(OpKind::kReshape, {slice->result()}, {{"shape", shape}});
}

Result<Value*> Stacked(Builder& builder, ValueList parts, int64_t axis) {
  const int rank = parts[0]->type.rank();
  FUSEC_ASSIGN(axis, NormalizeAxis(axis, rank + 1));
  for (Value*& part : parts) {
    if (part->type.rank() != rank) return ModelError("the tensors that it joins differ in rank");
    Shape shape = part->type.shape;
    shape.insert(shape.begin() + axis, Expr(1));
    part = builder.Make(OpKind::kReshape, {part}, {{"shape", shape}});
  }
  FUSEC_ASSIGN(Node * joined, builder.Add(OpKind::kConcat, parts, {{"axis", axis}}));
  return joined->result();
}

}  // namespace fusec
