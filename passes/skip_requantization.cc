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

bool IsCode(Dtype dtype) { return IsInteger(dtype) && DtypeBytes(dtype) <= 2; }

// The number that a constant of one element holds, or a cast of one to a type that holds it too.
std::optional<double> NumberOf(const Value* value) {
  if (const Node* cast = ProducerOf(value, OpKind::kCast)) {
    const Dtype from = cast->operand(0)->type.dtype, to = value->type.dtype;
    const bool widens = IsFloat(from) && DtypeBytes(from) < DtypeBytes(to);
    if (to != Dtype::kF32 || !(IsCode(from) || widens)) return std::nullopt;
    value = cast->operand(0);
  }
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

double Least(Dtype code) {
  return IsUnsigned(code) ? 0 : -std::ldexp(1.0, 8 * DtypeBytes(code) - 1);
}

double Greatest(Dtype code) { return Least(code) + std::ldexp(1.0, 8 * DtypeBytes(code)) - 1; }

// Whether the zero point is a code, and products of codes and the scale are normal numbers.
bool IsExact(const Quantization& q) {
  const bool is_code = q.zero_point == std::trunc(q.zero_point) && q.zero_point >= Least(q.dtype) &&
                       q.zero_point <= Greatest(q.dtype);
  return is_code && std::abs(q.scale) > 0x1p-100 && std::abs(q.scale) < 0x1p100;
}

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
  if (least != Least(q.dtype) || greatest != Greatest(q.dtype)) return std::nullopt;
  if (Value* added_to = BesideNumber(x, OpKind::kAdd, q.zero_point)) x = added_to;
  const Node* round = ProducerOf(x, OpKind::kRound);
  if (!round || !(x = BesideNumber(round->operand(0), OpKind::kDiv, q.scale)) || !IsExact(q))
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
  if (!IsCode(q.dtype) || !IsExact(q)) return std::nullopt;
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
      Record(node);
      const std::optional<Quantized> quantized = AsQuantize(node.result());
      if (!quantized) return nullptr;
      const auto origin = origins_.find(quantized->value);
      const bool same =
          origin != origins_.end() && origin->second.quantization == quantized->quantization;
      return same ? Codes(quantized->value, builder) : nullptr;
    });
  }

 private:
  // What a value was dequantized with that consists of dequantized codes, and the number of views
  // since then.
  struct Origin {
    Quantization quantization;
    int views = 0;
  };
  static constexpr int kMostViews = 64;  // Codes recurses over them

  // Notes the origin of the node's result, if it has one. Operands were noted before.
  void Record(const Node& node) {
    if (const std::optional<Quantized> dequantized = AsDequantize(node.result())) {
      origins_[node.result()] = {dequantized->quantization};
      return;
    }
    std::optional<Origin> origin;
    for (size_t i = 0; i < MovedOperands(node); ++i) {
      const auto known = origins_.find(node.operand(i));
      if (known == origins_.end()) return;
      if (!origin) origin = known->second;
      if (!(origin->quantization == known->second.quantization)) return;
      origin->views = std::max(origin->views, known->second.views);
    }
    if (!origin || origin->views >= kMostViews) return;
    ++origin->views;
    origins_[node.result()] = *origin;
  }

  // The codes of a value that has an origin.
  Value* Codes(Value* value, Builder& builder) {
    if (const std::optional<Quantized> dequantized = AsDequantize(value)) return dequantized->value;
    const auto known = codes_.find(value);
    if (known != codes_.end()) return known->second;
    const Node& view = *value->producer;
    ValueList operands = view.operands;
    for (size_t i = 0; i < MovedOperands(view); ++i) operands[i] = Codes(operands[i], builder);
    return codes_[value] =
               builder.Make(view.kind, operands, view.attributes, value->name + "_codes");
  }

  Graph& graph_;
  DenseMap<const Value*, Origin> origins_;
  DenseMap<const Value*, Value*> codes_;
};

}  // namespace

Result<bool> SkipRequantization(Graph& graph, const PassOptions&, PassReport&) {
  return Skipper(graph).Run();
}

}  // namespace fusec
