#include "compiler/ir/graph.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/check.h"

namespace fusec {
namespace {

std::string PlainText(OpKind kind, ArrayRef<Value*> operands) {
  std::string text = std::string(GetOpDef(kind).text) + "(";
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i != 0) text += ", ";
    if (operands[i] == nullptr) text += "_";
    else text += "%" + operands[i]->name + ": " + operands[i]->type.ToString();
  }
  return text + ")";
}

}  // namespace

template <class T>
const T& Node::Get(const std::string& attribute) const {
  const auto found = attributes.find(attribute);
  FUSEC_CHECK(found != attributes.end(), "no attribute \"" + attribute + "\"\n" + PrintNode(*this));
  const T* value = std::get_if<T>(&found->second);
  FUSEC_CHECK(value != nullptr,
              "attribute \"" + attribute + "\" is of another kind\n" + PrintNode(*this));
  return *value;
}
template const int64_t& Node::Get(const std::string&) const;
template const double& Node::Get(const std::string&) const;
template const std::string& Node::Get(const std::string&) const;
template const std::vector<int64_t>& Node::Get(const std::string&) const;
template const std::vector<double>& Node::Get(const std::string&) const;
template const Exprs& Node::Get(const std::string&) const;
template const Dtype& Node::Get(const std::string&) const;

Result<Node*> Builder::Add(OpKind kind, ArrayRef<Value*> operands, Attributes attributes,
                           const std::string& name_hint) {
  while (!operands.empty() && operands.back() == nullptr) operands = operands.drop_back();
  FUSEC_ASSIGN(std::vector<TensorType> types,
               InferTypes(kind, operands, attributes, graph_.SymbolRanges()));
  Node* node = Insert(kind, operands, std::move(attributes));
  const std::string hint = name_hint.empty() ? GetOpDef(kind).text : name_hint;
  for (TensorType& type : types) AddResult(*node, hint, std::move(type));
  return node;
}

Value* Builder::Make(OpKind kind, ArrayRef<Value*> operands, Attributes attributes,
                     const std::string& name_hint) {
  const std::string text = PlainText(kind, operands);
  Result<Node*> node = Add(kind, operands, std::move(attributes), name_hint);
  FUSEC_CHECK(node.has_value(), text + ": " + node.error().message);
  FUSEC_CHECK((*node)->results.size() == 1, text + " has several results");
  return (*node)->result();
}

Node* Builder::Region(ArrayRef<Value*> operands, std::unique_ptr<Graph> body,
                      Attributes attributes) {
  FUSEC_CHECK(body->inputs.size() == operands.size(),
              PlainText(OpKind::kRegion, operands) + " does not match its body\n" + Print(*body));
  Node* node = Insert(OpKind::kRegion, operands, std::move(attributes));
  for (const Value* output : body->outputs) AddResult(*node, output->name, output->type);
  node->body = std::move(body);
  return node;
}

Value* Builder::Constant(TensorData data, const std::string& name_hint) {
  TensorType type;
  type.dtype = data.dtype();
  for (const int64_t dim : data.dims()) type.shape.emplace_back(dim);
  Node* node = Insert(OpKind::kConstant, {}, {});
  AddResult(*node, name_hint, std::move(type));
  node->constant_hash = data.Hash();
  node->constant = std::move(data);
  return node->result();
}

Value* Builder::Scalar(Dtype dtype, double value) {
  TensorData data(dtype, {});
  data.SetDouble(0, value);
  return Constant(std::move(data));
}

Node* Builder::Insert(OpKind kind, ArrayRef<Value*> operands, Attributes attributes) {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  node->operands.assign(operands.begin(), operands.end());
  node->attributes = std::move(attributes);
  node->provenance = provenance_;
  Node* inserted = node.get();
  graph_.nodes.insert(graph_.nodes.begin() + static_cast<int64_t>(insert_at_), std::move(node));
  ++insert_at_;
  return inserted;
}

void Builder::AddResult(Node& node, const std::string& name_hint, TensorType type) {
  auto value = std::make_unique<Value>();
  value->name = graph_.UniqueName(name_hint);
  value->type = std::move(type);
  value->producer = &node;
  value->result_index = static_cast<int>(node.results.size());
  node.results.push_back(std::move(value));
}

}  // namespace fusec
