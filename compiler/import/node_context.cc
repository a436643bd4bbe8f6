#include "compiler/import/node_context.h"

#include "compiler/import/tensor_proto.h"
#include "compiler/ir/symbolic_contents.h"

namespace fusec {

std::optional<Exprs> KnownContents(const Value* value, ImportState& state) {
  return SymbolicContents(value, state.ranges,
                          [&](const Value* constant) { return state.constants.Of(constant); });
}

std::optional<TensorData> KnownTensor(const Value* value, ImportState& state) {
  const TensorData* data = state.constants.Of(value);
  return data == nullptr ? std::nullopt : std::optional(*data);
}

NodeContext::NodeContext(ImportState& state, const Scope& scope, const onnx::NodeProto& node)
    : state_(state), scope_(scope), node_(node), outputs_(node.output_size()) {}

Value* NodeContext::input(int i) const {
  if (i >= node_.input_size() || node_.input(i).empty()) return nullptr;
  return scope_.Get(node_.input(i));
}

bool NodeContext::output_used(int i) const {
  return i < node_.output_size() && !node_.output(i).empty();
}

const onnx::AttributeProto* NodeContext::Find(const std::string& name) const {
  for (const onnx::AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t NodeContext::Int(const std::string& attribute, int64_t otherwise) const {
  const auto* found = Find(attribute);
  return found == nullptr ? otherwise : found->i();
}

double NodeContext::Float(const std::string& attribute, double otherwise) const {
  const auto* found = Find(attribute);
  return found == nullptr ? otherwise : found->f();
}

std::string NodeContext::String(const std::string& attribute, const std::string& otherwise) const {
  const auto* found = Find(attribute);
  return found == nullptr ? otherwise : found->s();
}

std::vector<int64_t> NodeContext::Ints(const std::string& attribute) const {
  const auto* found = Find(attribute);
  if (found == nullptr) return {};
  return {found->ints().begin(), found->ints().end()};
}

std::vector<double> NodeContext::Floats(const std::string& attribute) const {
  const auto* found = Find(attribute);
  if (found == nullptr) return {};
  return {found->floats().begin(), found->floats().end()};
}

std::vector<std::string> NodeContext::Strings(const std::string& attribute) const {
  const auto* found = Find(attribute);
  if (found == nullptr) return {};
  return {found->strings().begin(), found->strings().end()};
}

Result<void> NodeContext::ReadTensors() {
  for (const onnx::AttributeProto& attribute : node_.attribute()) {
    if (!attribute.has_t()) continue;
    onnx::TensorProto copy = attribute.t();
    Result<TensorData> tensor = TakeTensor(copy, state_.external);
    if (!tensor) return Fail("attribute " + attribute.name() + " " + tensor.error().message);
    tensors_.emplace(attribute.name(), *std::move(tensor));
  }
  return {};
}

std::optional<TensorData> NodeContext::Tensor(const std::string& attribute) const {
  const auto found = tensors_.find(attribute);
  if (found == tensors_.end()) return std::nullopt;
  return found->second;
}

Result<Dtype> NodeContext::Type(const std::string& attribute, Dtype otherwise) const {
  const auto* found = Find(attribute);
  if (found == nullptr) return otherwise;
  const int data_type = static_cast<int>(found->i());
  const std::optional<Dtype> dtype = DtypeFromOnnx(data_type);
  if (!dtype) return Fail("attribute " + attribute + " is " + UnsupportedType(data_type));
  return *dtype;
}

std::optional<NarrowType> NodeContext::Narrow(const std::string& attribute) const {
  const auto* found = Find(attribute);
  return found == nullptr ? std::nullopt : NarrowTypeFromOnnx(static_cast<int>(found->i()));
}

std::optional<NarrowType> NodeContext::Narrow(int i) const {
  const auto found = state_.narrow.find(input(i));
  return found == state_.narrow.end() ? std::nullopt : std::optional(found->second);
}

std::optional<TensorData> NodeContext::TryConstant(int i) const {
  const Value* value = input(i);
  return value == nullptr ? std::nullopt : KnownTensor(value, state_);
}

std::optional<TensorData> NodeContext::TryConstant(const Value* value) const {
  return KnownTensor(value, state_);
}

tl::unexpected<Error> NodeContext::NotConstant(int i, const std::string& what) const {
  if (input(i) == nullptr) return Fail(what + " is missing");
  return Fail(what + " is computed from run-time data, which fusec does not support");
}

Result<TensorData> NodeContext::ConstantInput(int i, const std::string& what) const {
  std::optional<TensorData> data = TryConstant(i);
  if (!data) return NotConstant(i, what);
  return *std::move(data);
}

Result<std::vector<int64_t>> NodeContext::ConstantInts(int i, const std::string& what) const {
  FUSEC_ASSIGN(const TensorData data, ConstantInput(i, what));
  std::vector<int64_t> ints;
  for (int64_t k = 0; k < data.element_count(); ++k) ints.push_back(data.GetInt(k));
  return ints;
}

Result<Exprs> NodeContext::SymbolicInts(int i, const std::string& what) const {
  const Value* value = input(i);
  if (value == nullptr) return NotConstant(i, what);
  auto contents = KnownContents(value, state_);
  if (!contents && value->type.ElementCount().IsConstant(1)) {
    if (const std::optional<Expr> count = state_.counts.OfSum(value)) return Exprs{*count};
  }
  if (!contents) return NotConstant(i, what);
  return *std::move(contents);
}

tl::unexpected<Error> NodeContext::Fail(const std::string& message) const {
  return ModelError(state_.problems.path() + ": " + NodeLabel(node_) + ": " + message);
}

void NodeContext::Warn(const std::string& message) {
  state_.warnings.push_back(NodeLabel(node_) + ": " + message);
}

}  // namespace fusec
