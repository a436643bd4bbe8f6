#include "compiler/import/constant_values.h"

#include "compiler/ir/op_def.h"
#include "compiler/ir/symbolic_contents.h"
#include "compiler/reference/interpreter.h"

namespace fusec {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 20;
constexpr int kDeepest = 200;  // longest chain of ops followed, so that no model exhausts the stack

bool IsSmall(const Value* value) {
  const std::optional<int64_t> elements = value->type.ElementCount().AsConstant();
  return elements && *elements <= kMostElements && StaticShape(value->type.shape).has_value();
}

// Whether the interpreter can compute the results of `node` cheaply from its operands alone.
bool CanEvaluate(const Node& node) {
  const OpDef& def = GetOpDef(node.kind);
  if (def.functions.reference == nullptr || def.op_class == OpClass::kContraction ||
      def.op_class == OpClass::kComposite) {
    return false;
  }
  for (const auto& result : node.results) {
    if (!IsSmall(result.get())) return false;
  }
  for (const auto& [name, attribute] : node.attributes) {
    const auto* dims = std::get_if<Exprs>(&attribute);
    if (dims != nullptr && !StaticShape(*dims)) return false;
  }
  return true;
}

}  // namespace

const TensorData* ConstantValues::Of(const Value* value) {
  if (IsConstant(value)) return Payload(value);
  const auto found = known_.find(value);
  if (found != known_.end()) return found->second.get();
  if (depth_ == kDeepest) return nullptr;
  ++depth_;
  known_[value] = nullptr;  // counts as unknown while it is being computed
  std::unique_ptr<TensorData> data = Compute(*value);
  if (data == nullptr) data = FromSizes(*value);
  --depth_;
  return (known_[value] = std::move(data)).get();
}

std::unique_ptr<TensorData> ConstantValues::Compute(const Value& value) {
  if (value.producer == nullptr || !CanEvaluate(*value.producer)) return nullptr;
  std::vector<ReferenceTensor> inputs;
  for (const Value* operand : value.producer->operands) {
    if (operand == nullptr) continue;
    const TensorData* data = IsSmall(operand) ? Of(operand) : nullptr;
    if (data == nullptr) return nullptr;
    inputs.push_back(ReferenceTensor::FromData(*data));
  }
  // Errors of the interpreter, such as an index outside its table, are left to the run.
  const auto results = InterpretNode(*value.producer, inputs);
  if (!results) return nullptr;
  return std::make_unique<TensorData>((*results)[value.result_index].ToData());
}

std::unique_ptr<TensorData> ConstantValues::FromSizes(const Value& value) {
  const auto contents =
      SymbolicContents(&value, ranges_, [&](const Value* other) { return Of(other); });
  if (!contents) return nullptr;
  auto data = std::make_unique<TensorData>(value.type.dtype, *StaticShape(value.type.shape));
  for (size_t i = 0; i < contents->size(); ++i) {
    const std::optional<int64_t> number = (*contents)[i].AsConstant();
    if (!number) return nullptr;
    if (IsFloat(value.type.dtype)) {
      data->SetDouble(static_cast<int64_t>(i), static_cast<double>(*number));
    } else {
      data->SetInt(static_cast<int64_t>(i), *number);
    }
  }
  return data;
}

}  // namespace fusec
