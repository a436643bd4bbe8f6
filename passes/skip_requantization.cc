#include "passes/skip_requantization.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "passes/graph_edit.h"

namespace fusec {

namespace {

// How the codes of a tensor are related to its values.
struct Quantization {
  double scale = 1, zero_point = 0;
  Dtype dtype = Dtype::kI8;  // of the codes
  bool operator==(const Quantization&) const = default;
};

struct Quantized {
  Quantization quantization;
  Value* value;  // the codes, or what is quantized
};

Node* ProducerOf(const Value* value, OpKind kind) {
  Node* node = value->producer;
  return node && node->kind == kind ? node : nullptr;
}

// The number that a constant of one element, or a cast of one, holds.
std::optional<double> NumberOf(const Value* value) {
  while (const Node* cast = ProducerOf(value, OpKind::kCast)) value = cast->operand(0);
  return ScalarConstant(value);
}

// The operand of a binary op beside a constant number, which `number` gets.
Value* BesideNumber(const Value* value, OpKind kind, double& number) {
  const Node* node = ProducerOf(value, kind);
  const std::optional<double> found = node ? NumberOf(node->operand(1)) : std::nullopt;
  if (!found || node->operand(0)->type != value->type) return nullptr;
  number = *found;
  return node->operand(0);
}

bool IsCode(Dtype dtype) { return IsInteger(dtype) && DtypeBytes(dtype) <= 2; }

// Products of codes and such a scale are normal numbers.
bool IsModerate(double scale) { return std::abs(scale) > 0x1p-100 && std::abs(scale) < 0x1p100; }

// value = saturate(round(x / scale) + zero point)
std::optional<Quantized> AsQuantize(const Value* value) {
  const Node* saturated = ProducerOf(value, OpKind::kCast);
  if (!saturated || !IsCode(value->type.dtype)) return std::nullopt;
  Quantization q{1, 0, value->type.dtype};
  double greatest = 0, least = 0;
  Value* x = saturated->operand(0);
  if (x->type.dtype != Dtype::kF32 || !(x = BesideNumber(x, OpKind::kMin, greatest)) ||
      !(x = BesideNumber(x, OpKind::kMax, least)))
    return std::nullopt;
  const double codes = std::ldexp(1.0, 8 * DtypeBytes(q.dtype));
  if (least != (IsUnsigned(q.dtype) ? 0 : -codes / 2) || greatest != least + codes - 1)
    return std::nullopt;
  if (Value* added_to = BesideNumber(x, OpKind::kAdd, q.zero_point)) x = added_to;
  const Node* round = ProducerOf(x, OpKind::kRound);
  if (!round || !(x = BesideNumber(round->operand(0), OpKind::kDiv, q.scale)) ||
      !IsModerate(q.scale))
    return std::nullopt;
  return Quantized{q, x};
}

// value = (codes - zero point) * scale
std::optional<Quantized> AsDequantize(const Value* value) {
  Quantization q;
  const Value* centred = BesideNumber(value, OpKind::kMul, q.scale);
  if (!centred || value->type.dtype != Dtype::kF32) return std::nullopt;
  if (const Value* from = BesideNumber(centred, OpKind::kSub, q.zero_point)) centred = from;
  const Node* to_real = ProducerOf(centred, OpKind::kCast);
  if (!to_real) return std::nullopt;
  Value* codes = to_real->operand(0);
  q.dtype = codes->type.dtype;
  if (!IsCode(q.dtype) || !IsModerate(q.scale)) return std::nullopt;
  return Quantized{q, codes};
}

// The number of the first operands whose elements the op moves; 0 for other ops.
size_t MovedOperands(const Node& node) {
  switch (node.kind) {
    case OpKind::kReshape:
    case OpKind::kTranspose:
    case OpKind::kSlice:
    case OpKind::kExpand:
    case OpKind::kGather:
      return 1;
    case OpKind::kConcat:
      return node.operands.size();
    default:
      return 0;
  }
}

class Skipper {
 public:
  explicit Skipper(Graph& graph) : graph_(graph) {}

  bool Run() {
    return ReplaceResults(graph_, [this](const Node& node, Builder& builder) -> Value* {
      if (node.results.size() != 1) return nullptr;
      const std::optional<Quantized> quantized = AsQuantize(node.result());
      if (!quantized || !HasCodes(quantized->value, quantized->quantization)) return nullptr;
      return Codes(quantized->value, builder);
    });
  }

 private:
  // Whether `value` consists of codes that were dequantized so.
  bool HasCodes(const Value* value, const Quantization& quantization) const {
    const std::optional<Quantized> dequantized = AsDequantize(value);
    if (dequantized) return dequantized->quantization == quantization;
    if (!value->producer || value->producer->results.size() != 1) return false;
    const Node& view = *value->producer;
    const size_t moved = MovedOperands(view);
    return moved > 0 &&
           std::all_of(view.operands.begin(), view.operands.begin() + moved,
                       [&](const Value* operand) { return HasCodes(operand, quantization); });
  }

  // The codes of such a value.
  Value* Codes(Value* value, Builder& builder) {
    if (const std::optional<Quantized> dequantized = AsDequantize(value)) return dequantized->value;
    const auto [known, is_new] = codes_.try_emplace(value);
    if (!is_new) return known->second;
    const Node& view = *value->producer;
    ValueList operands = view.operands;
    for (size_t i = 0; i < MovedOperands(view); ++i) operands[i] = Codes(operands[i], builder);
    Value* codes = builder.Make(view.kind, operands, view.attributes, value->name + "_codes");
    return codes_[value] = codes;
  }

  Graph& graph_;
  DenseMap<const Value*, Value*> codes_;
};

}  // namespace

Result<bool> SkipRequantization(Graph& graph, const PassOptions&, PassReport&) {
  return Skipper(graph).Run();
}

}  // namespace fusec
