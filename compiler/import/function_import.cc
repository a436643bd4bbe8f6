#include "compiler/import/function_import.h"

#include <onnx/defs/schema.h>

#include <exception>
#include <set>
#include <utility>

#include "compiler/import/graph_import.h"
#include "compiler/import/names.h"

namespace fusec {
namespace {

// The ONNX type of an operand, which builders of context-dependent function bodies read; empty for
// an absent operand.
onnx::TypeProto TypeOf(const Value* value) {
  onnx::TypeProto type;
  if (value == nullptr) return type;
  auto& tensor = *type.mutable_tensor_type();
  tensor.set_elem_type(OnnxTypeOf(value->type.dtype));
  auto& shape = *tensor.mutable_shape();
  for (const Expr& dim : value->type.shape) {
    if (const std::optional<int64_t> size = dim.AsConstant()) {
      shape.add_dim()->set_dim_value(*size);
    } else {
      shape.add_dim()->set_dim_param(dim.ToString());
    }
  }
  return type;
}

std::optional<onnx::FunctionProto> BodyOf(const onnx::NodeProto& node, const ImportState& state,
                                          const Scope& scope) {
  const onnx::OpSchema* schema = SchemaOf(node, state);
  const int opset = static_cast<int>(state.opsets.at(node.domain()));
  if (schema->HasContextDependentFunction()) {
    std::vector<onnx::TypeProto> types;
    for (const std::string& input : node.input()) {
      types.push_back(TypeOf(input.empty() ? nullptr : scope.Get(input)));
    }
    onnx::FunctionProto body;
    const onnx::FunctionBodyBuildContextImpl context(node, types);
    if (schema->BuildContextDependentFunction(context, body, opset)) return body;
  }
  const onnx::FunctionProto* body = schema->GetFunction(opset);
  return body == nullptr ? std::nullopt : std::optional(*body);
}

using AttributesByName = std::map<std::string, const onnx::AttributeProto*>;

AttributesByName DefaultsOf(const onnx::OpSchema& schema) {
  AttributesByName defaults;
  for (const auto& [name, attribute] : schema.attributes()) {
    if (attribute.default_value.type() != onnx::AttributeProto::UNDEFINED)
      defaults[name] = &attribute.default_value;
  }
  return defaults;
}
AttributesByName DefaultsOf(const onnx::FunctionProto& function) {
  AttributesByName defaults;
  for (const onnx::AttributeProto& attribute : function.attribute_proto())
    defaults[attribute.name()] = &attribute;
  return defaults;
}

// The attributes of `node`, and the defaults of those that it leaves out.
AttributesByName AttributesOf(const onnx::NodeProto& node, AttributesByName defaults) {
  for (const onnx::AttributeProto& attribute : node.attribute())
    defaults[attribute.name()] = &attribute;
  return defaults;
}

// Replaces references to attributes of the function by their values, also in subgraphs. References
// to absent attributes are removed.
void ResolveReferences(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                       const AttributesByName& values) {
  for (onnx::NodeProto& node : nodes) {
    auto& attributes = *node.mutable_attribute();
    for (int i = attributes.size(); i-- > 0;) {
      onnx::AttributeProto& attribute = attributes[i];
      if (attribute.has_g()) ResolveReferences(*attribute.mutable_g()->mutable_node(), values);
      if (attribute.ref_attr_name().empty()) continue;
      const auto value = values.find(attribute.ref_attr_name());
      if (value == values.end()) {
        attributes.DeleteSubrange(i, 1);
        continue;
      }
      const std::string name = attribute.name();
      attribute = *value->second;
      attribute.set_name(name);
    }
  }
}

// Makes the body's opset imports apply for the lifetime of this object.
class OpsetsOfBody {
 public:
  OpsetsOfBody(const onnx::FunctionProto& body, ImportState& state)
      : state_(state), outside_(state.opsets) {
    for (const auto& opset : body.opset_import()) state.opsets[opset.domain()] = opset.version();
  }
  ~OpsetsOfBody() { state_.opsets = std::move(outside_); }

 private:
  ImportState& state_;
  std::map<std::string, int64_t> outside_;
};

// The body as a graph. Inputs that `node` leaves out are also left out in the body's nodes; the
// others are defined in `inner`.
onnx::GraphProto GraphOf(onnx::FunctionProto& body, const onnx::NodeProto& node,
                         const AttributesByName& attributes, const Scope& scope, Scope& inner) {
  std::set<std::string> absent;
  for (int i = 0; i < body.input_size(); ++i) {
    const std::string given = i < node.input_size() ? node.input(i) : "";
    if (std::optional<Named> named = scope.Find(given)) {
      inner.Define(body.input(i), *std::move(named));
    } else {
      absent.insert(body.input(i));
    }
  }
  ResolveReferences(*body.mutable_node(), attributes);
  onnx::GraphProto graph;
  graph.mutable_node()->Swap(body.mutable_node());
  for (int i = 0; i < node.output_size(); ++i) {
    if (!node.output(i).empty()) graph.add_output()->set_name(body.output(i));
  }
  for (onnx::NodeProto& part : *graph.mutable_node()) {
    part.set_name(node.name());
    for (std::string& input : *part.mutable_input()) {
      if (absent.count(input)) input.clear();
    }
  }
  return graph;
}

void ImportBody(onnx::FunctionProto& body, const AttributesByName& attributes,
                const onnx::NodeProto& node, ImportState& state, const Scope& scope,
                ValueList& results) {
  Scope inner;
  onnx::GraphProto graph = GraphOf(body, node, attributes, scope, inner);
  const OpsetsOfBody opsets(body, state);
  ImportNodes(graph, state, inner);
  for (int i = 0; i < node.output_size(); ++i)
    results.push_back(node.output(i).empty() ? nullptr : inner.Get(body.output(i)));
}

}  // namespace

const onnx::OpSchema* SchemaOf(const onnx::NodeProto& node, const ImportState& state) {
  const auto opset = state.opsets.find(node.domain());
  if (opset == state.opsets.end()) return nullptr;
  return onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(opset->second),
                                        node.domain());
}

bool HasFunctionBody(const onnx::NodeProto& node, const ImportState& state) {
  const onnx::OpSchema* schema = SchemaOf(node, state);
  return schema != nullptr && (schema->HasFunction() || schema->HasContextDependentFunction());
}

Result<void> ImportFunctionBody(const onnx::NodeProto& node, ImportState& state, const Scope& scope,
                                ValueList& results) {
  std::optional<onnx::FunctionProto> body;
  try {
    body = BodyOf(node, state, scope);
  } catch (const std::exception& error) {
    return ModelError(OneLine(error.what()));
  }
  if (!body || body->output_size() < node.output_size()) {
    return ModelError("ONNX defines it by other ops, but not for this opset and these operands");
  }
  ImportBody(*body, AttributesOf(node, DefaultsOf(*SchemaOf(node, state))), node, state, scope,
             results);
  return {};
}

void ImportAsFunction(onnx::FunctionProto function, const onnx::NodeProto& node, ImportState& state,
                      const Scope& scope, ValueList& results) {
  const onnx::FunctionProto given = function;  // the import takes the nodes of `function`
  ImportBody(function, AttributesOf(node, DefaultsOf(given)), node, state, scope, results);
}

}  // namespace fusec
