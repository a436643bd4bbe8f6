#include "tests/fuzz/libfuzzer/onnx_mutator.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <onnx/defs/schema.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace fusec {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Random = std::mt19937_64;

template <class Items>
auto& AnyOf(Items&& items, Random& random) {
  return items[static_cast<int>(random() % static_cast<size_t>(std::size(items)))];
}

int64_t AnyNumber(Random& random) {
  static constexpr int64_t kNumbers[] = {-1,    0,         1,          2,           3,         4,         7,        8,
                                         9,     16,        64,         127,         128,       255,       256,      1000,
                                         65536, 123456789, 2147483647, -2147483648, INT64_MAX, INT64_MIN, 1LL << 62};
  return random() % 4 != 0 ? static_cast<int64_t>(random() % 12) - 3 : AnyOf(kNumbers, random);
}

double AnyFloat(Random& random) {
  static const double kFloats[] = {0, -0.0, 1, -1, 0.5, 2, 1e-5, 3.4e38, 1e300, INFINITY, -INFINITY, NAN};
  return AnyOf(kFloats, random);
}

// Everything in a model that may be changed, by reflection.
void Collect(Message& message, std::vector<Message*>& all) {
  all.push_back(&message);
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      Collect(*reflection.MutableMessage(&message, field), all);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) Collect(*reflection.MutableRepeatedMessage(&message, field, i), all);
  }
}

std::vector<Message*> AllMessages(onnx::ModelProto& model) {
  std::vector<Message*> all;
  Collect(model, all);
  return all;
}

template <class Part>
std::vector<Part*> AllOf(onnx::ModelProto& model) {
  std::vector<Part*> parts;
  for (Message* message : AllMessages(model)) {
    if (auto* part = dynamic_cast<Part*>(message)) parts.push_back(part);
  }
  return parts;
}

// Names of tensors, wherever they are defined.
std::vector<std::string> AllNames(onnx::ModelProto& model) {
  std::vector<std::string> names = {""};
  for (const auto* value : AllOf<onnx::ValueInfoProto>(model)) names.push_back(value->name());
  for (const auto* graph : AllOf<onnx::GraphProto>(model)) {
    for (const auto& tensor : graph->initializer()) names.push_back(tensor.name());
  }
  for (const auto* node : AllOf<onnx::NodeProto>(model)) names.insert(names.end(), node->output().begin(), node->output().end());
  return names;
}

std::string AnyText(onnx::ModelProto& model, std::string text, Random& random) {
  static const char* const kTexts[] = {"",    "x",  "ai.onnx", "com.microsoft", "ai.onnx.ml", "batch",
                                       "a*b", "\n", "\xff",    "location",      "data",       "0"};
  switch (random() % 4) {
    case 0:
      return AnyOf(kTexts, random);
    case 1: {
      const auto names = AllNames(model);
      return AnyOf(names, random);
    }
    case 2:
      return text.substr(0, random() % (text.size() + 1));
    default:
      if (text.empty()) return std::string(random() % 16, '\x7f');
      text[random() % text.size()] = static_cast<char>(random());
      return text;
  }
}

// `text`: what a string was. Sets the field, or appends to it.
void SetAny(onnx::ModelProto& model, Message& message, const FieldDescriptor& field, const std::string& text, Random& random) {
  const Reflection& reflection = *message.GetReflection();
  const bool add = field.is_repeated();
#define SET(Type, value) add ? reflection.Add##Type(&message, &field, value) : reflection.Set##Type(&message, &field, value)
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return SET(Int32, static_cast<int32_t>(AnyNumber(random)));
    case FieldDescriptor::CPPTYPE_INT64:
      return SET(Int64, AnyNumber(random));
    case FieldDescriptor::CPPTYPE_UINT32:
      return SET(UInt32, static_cast<uint32_t>(AnyNumber(random)));
    case FieldDescriptor::CPPTYPE_UINT64:
      return SET(UInt64, static_cast<uint64_t>(AnyNumber(random)));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return SET(Float, static_cast<float>(AnyFloat(random)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return SET(Double, AnyFloat(random));
    case FieldDescriptor::CPPTYPE_BOOL:
      return SET(Bool, random() % 2 != 0);
    case FieldDescriptor::CPPTYPE_STRING:
      return SET(String, AnyText(model, text, random));
    case FieldDescriptor::CPPTYPE_ENUM:
      return SET(Enum, field.enum_type()->value(static_cast<int>(random() % field.enum_type()->value_count())));
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      Message* part = add ? reflection.AddMessage(&message, &field) : reflection.MutableMessage(&message, &field);
      std::vector<const Message*> alike;
      for (Message* other : AllMessages(model)) {
        if (other->GetDescriptor() == part->GetDescriptor() && other != part) alike.push_back(other);
      }
      if (alike.empty()) return;
      const std::string copy = AnyOf(alike, random)->SerializePartialAsString();  // it may hold `part`
      part->ParsePartialFromString(copy);
      return;
    }
  }
#undef SET
}

void MutateRepeated(onnx::ModelProto& model, Message& message, const FieldDescriptor& field, Random& random) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  const int a = size > 0 ? static_cast<int>(random() % size) : 0;
  const bool is_text = size > 0 && field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  const std::string text = is_text ? reflection.GetRepeatedString(message, &field, a) : "";
  switch (size == 0 ? 0 : random() % 4) {
    case 0:
      return SetAny(model, message, field, text, random);
    case 1:
      reflection.SwapElements(&message, &field, a, size - 1);
      return reflection.RemoveLast(&message, &field);
    case 2:
      return reflection.SwapElements(&message, &field, a, static_cast<int>(random() % size));
    default:  // another in its place
      SetAny(model, message, field, text, random);
      reflection.SwapElements(&message, &field, a, size);
      return reflection.RemoveLast(&message, &field);
  }
}

void MutateField(onnx::ModelProto& model, Random& random) {
  const std::vector<Message*> all = AllMessages(model);
  Message& message = *AnyOf(all, random);
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  if (fields.empty() || random() % 4 == 0) {  // one that is not there
    const auto& type = *message.GetDescriptor();
    if (type.field_count() == 0) return;
    fields = {type.field(static_cast<int>(random() % type.field_count()))};
  }
  const FieldDescriptor& field = *AnyOf(fields, random);
  if (field.is_repeated()) return MutateRepeated(model, message, field, random);
  if (random() % 8 == 0) return reflection.ClearField(&message, &field);
  const bool is_text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  SetAny(model, message, field, is_text ? reflection.GetString(message, &field) : "", random);
}

const std::vector<onnx::OpSchema>& Schemas() {
  static const std::vector<onnx::OpSchema> schemas = onnx::OpSchemaRegistry::get_all_schemas();
  return schemas;
}

const onnx::OpSchema* SchemaOf(const onnx::NodeProto& node) {
  static const auto index = [] {
    std::map<std::string, const onnx::OpSchema*> by_name;
    for (const onnx::OpSchema& schema : Schemas()) by_name[schema.Name()] = &schema;
    return by_name;
  }();
  const auto found = index.find(node.op_type());
  return found == index.end() ? nullptr : found->second;
}

// A tensor of few elements: axes, sizes, pads, ids, a scale.
void SetSmallTensor(onnx::TensorProto& tensor, Random& random) {
  tensor.Clear();
  const int64_t count = static_cast<int64_t>(random() % 5);
  const bool is_scalar = count == 1 && random() % 2 == 0;
  if (!is_scalar) tensor.add_dims(count);
  const bool is_float = random() % 4 == 0;
  static constexpr int kOthers[] = {onnx::TensorProto::INT32, onnx::TensorProto::BOOL, onnx::TensorProto::UINT8, onnx::TensorProto::INT8};
  const bool is_long = random() % 3 != 0;
  tensor.set_data_type(is_float ? onnx::TensorProto::FLOAT : is_long ? onnx::TensorProto::INT64 : AnyOf(kOthers, random));
  for (int64_t i = 0; i < count; ++i) {
    if (is_float)
      tensor.add_float_data(static_cast<float>(AnyFloat(random)));
    else if (is_long)
      tensor.add_int64_data(AnyNumber(random));
    else
      tensor.add_int32_data(static_cast<int>(random() % 4));
  }
}

// An initializer that is new; its name.
std::string AddConstant(onnx::GraphProto& graph, Random& random) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  SetSmallTensor(tensor, random);
  tensor.set_name("c" + std::to_string(random() % 1000));
  return tensor.name();
}

void SetAttribute(onnx::ModelProto& model, onnx::AttributeProto& attribute, int type, Random& random) {
  static const char* const kWords[] = {
      "none",  "add",     "mul",           "linear",    "nearest",       "cubic",      "SAME_UPPER", "VALID", "NOTSET",    "reflect",
      "edge",  "sum",     "mean",          "max",       "min",           "DCR",        "CRD",        "tanh",  "zeros",     "left",
      "right", "forward", "bidirectional", "ij,jk->ik", "align_corners", "asymmetric", "constant",   "wrap",  "half_pixel"};
  using onnx::AttributeProto;
  attribute.set_type(static_cast<AttributeProto::AttributeType>(type));
  const int count = static_cast<int>(random() % 5);
  if (type == AttributeProto::INT) attribute.set_i(AnyNumber(random));
  if (type == AttributeProto::FLOAT) attribute.set_f(static_cast<float>(AnyFloat(random)));
  if (type == AttributeProto::STRING) attribute.set_s(AnyOf(kWords, random));
  if (type == AttributeProto::TENSOR) SetSmallTensor(*attribute.mutable_t(), random);
  for (int i = 0; i < count; ++i) {
    if (type == AttributeProto::INTS) attribute.add_ints(AnyNumber(random));
    if (type == AttributeProto::FLOATS) attribute.add_floats(static_cast<float>(AnyFloat(random)));
    if (type == AttributeProto::STRINGS) attribute.add_strings(AnyOf(kWords, random));
  }
  if (type != AttributeProto::GRAPH) return;
  const auto graphs = AllOf<onnx::GraphProto>(model);
  const std::string copy = AnyOf(graphs, random)->SerializePartialAsString();
  attribute.mutable_g()->ParsePartialFromString(copy);
}

// Attributes of the op's schema, some of them.
void AddAttributes(onnx::ModelProto& model, onnx::NodeProto& node, const onnx::OpSchema& schema, Random& random) {
  for (const auto& [name, attribute] : schema.attributes()) {
    if (!attribute.required && random() % 3 != 0) continue;
    onnx::AttributeProto& added = *node.add_attribute();
    added.set_name(name);
    SetAttribute(model, added, attribute.type, random);
  }
}

// Before a node that is there, or behind all; half of them make an output.
void AddNode(onnx::ModelProto& model, Random& random) {
  const auto graphs = AllOf<onnx::GraphProto>(model);
  onnx::GraphProto& graph = *AnyOf(graphs, random);
  const onnx::OpSchema& schema = AnyOf(Schemas(), random);
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(schema.Name());
  node.set_domain(schema.domain());
  const auto names = AllNames(model);
  const int inputs = schema.min_input() + static_cast<int>(random() % (std::min(schema.max_input() - schema.min_input(), 3) + 1));
  for (int i = 0; i < inputs; ++i) node.add_input(random() % 4 == 0 ? AddConstant(graph, random) : AnyOf(names, random));
  for (int i = 0; i < std::max(1, schema.min_output()); ++i) node.add_output("n" + std::to_string(random() % 1000));
  AddAttributes(model, node, schema, random);
  if (random() % 2 == 0) graph.add_output()->set_name(node.output(0));
  const int last = graph.node_size() - 1;
  if (random() % 2 == 0) graph.mutable_node()->SwapElements(last, static_cast<int>(random() % graph.node_size()));
}

void MutateNode(onnx::ModelProto& model, Random& random) {
  const auto nodes = AllOf<onnx::NodeProto>(model);
  if (nodes.empty()) return AddNode(model, random);
  onnx::NodeProto& node = *AnyOf(nodes, random);
  const auto names = AllNames(model);
  switch (random() % 5) {
    case 0:
      node.set_op_type(AnyOf(Schemas(), random).Name());
      return;
    case 1:
      if (const auto* schema = SchemaOf(node)) {
        node.clear_attribute();
        AddAttributes(model, node, *schema, random);
      }
      return;
    case 2:
      node.add_input(AnyOf(names, random));
      return;
    case 3:
      if (node.attribute_size() > 0) {
        onnx::AttributeProto& attribute = AnyOf(*node.mutable_attribute(), random);
        const std::string name = attribute.name();
        const int type = attribute.type();
        attribute.Clear();
        attribute.set_name(name);
        SetAttribute(model, attribute, type, random);
        return;
      }
      [[fallthrough]];
    default:
      if (node.input_size() > 0) node.set_input(static_cast<int>(random() % node.input_size()), AnyOf(names, random));
      return;
  }
}

// An operand becomes a constant of few elements.
void MakeOperandConstant(onnx::ModelProto& model, Random& random) {
  onnx::GraphProto& graph = *model.mutable_graph();
  if (graph.node_size() == 0) return;
  onnx::NodeProto& node = AnyOf(*graph.mutable_node(), random);
  const std::string name = AddConstant(graph, random);
  if (node.input_size() > 0) node.set_input(static_cast<int>(random() % node.input_size()), name);
}

void MutateDims(onnx::ModelProto& model, Random& random) {
  static const char* const kSymbols[] = {"batch", "n", "m", "seq", "batch*2", "unk__1", ""};
  const auto types = AllOf<onnx::TypeProto::Tensor>(model);
  if (types.empty()) return;
  onnx::TypeProto::Tensor& type = *AnyOf(types, random);
  if (random() % 4 == 0) return type.set_elem_type(static_cast<int>(random() % (onnx::TensorProto::DataType_MAX + 1)));
  auto& dims = *type.mutable_shape()->mutable_dim();
  onnx::TensorShapeProto::Dimension& dim = dims.empty() || random() % 4 == 0 ? *dims.Add() : AnyOf(dims, random);
  if (random() % 3 == 0)
    dim.set_dim_param(AnyOf(kSymbols, random));
  else
    dim.set_dim_value(AnyNumber(random));
}

// Elements of another number or type than the dims and dtype say, or other ones.
void DamageTensor(onnx::ModelProto& model, Random& random) {
  const auto tensors = AllOf<onnx::TensorProto>(model);
  if (tensors.empty()) return;
  onnx::TensorProto& tensor = *AnyOf(tensors, random);
  std::string& raw = *tensor.mutable_raw_data();
  switch (random() % 5) {
    case 0:
      return tensor.set_data_type(static_cast<int>(random() % (onnx::TensorProto::DataType_MAX + 1)));
    case 1:
      raw.resize(random() % 65);
      return;
    case 2:
      if (!raw.empty()) raw[random() % raw.size()] = static_cast<char>(random());
      return;
    case 3: {
      tensor.set_data_location(onnx::TensorProto::EXTERNAL);
      auto& entry = *tensor.add_external_data();
      static const char* const kKeys[] = {"location", "offset", "length"};
      entry.set_key(AnyOf(kKeys, random));
      entry.set_value(entry.key() == "location" ? "data" : std::to_string(AnyNumber(random)));
      return;
    }
    default:
      return SetSmallTensor(tensor, random);
  }
}

void MutateOpset(onnx::ModelProto& model, Random& random) {
  for (auto& import : *model.mutable_opset_import()) import.set_version(7 + static_cast<int64_t>(random() % 22));
}

}  // namespace

void MutateModel(onnx::ModelProto& model, Random& random) {
  model.mutable_graph();  // one may be missing
  switch (random() % 16) {
    case 0:
    case 1:
      return AddNode(model, random);
    case 2:
    case 3:
      return MutateNode(model, random);
    case 4:
      return MakeOperandConstant(model, random);
    case 5:
      return MutateDims(model, random);
    case 6:
      return DamageTensor(model, random);
    case 7:
      return random() % 4 == 0 ? MutateOpset(model, random) : MutateDims(model, random);
    default:
      return MutateField(model, random);
  }
}

void CrossModels(onnx::ModelProto& model, const onnx::ModelProto& other, Random& random) {
  onnx::GraphProto& graph = *model.mutable_graph();
  for (const auto& node : other.graph().node()) {
    if (random() % 2 == 0) *graph.add_node() = node;
  }
  for (const auto& tensor : other.graph().initializer()) {
    if (random() % 2 == 0) *graph.add_initializer() = tensor;
  }
  for (const auto& input : other.graph().input()) {
    if (random() % 2 == 0) *graph.add_input() = input;
  }
  for (const auto& output : other.graph().output()) {
    if (random() % 4 == 0) *graph.add_output() = output;
  }
  for (const auto& function : other.functions()) {
    if (random() % 2 == 0) *model.add_functions() = function;
  }
}

}  // namespace fusec
