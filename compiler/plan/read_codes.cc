#include "compiler/plan/read_codes.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/element_sources.h"
#include "compiler/ir/op_def.h"
#include "compiler/kernel/idioms.h"
#include "compiler/kernel/size_names.h"
#include "compiler/region/product.h"

namespace fusec {

namespace {

// Whether the node makes floats of 4-bit codes.
bool CastsCodes(const Node& node) {
  return node.kind == OpKind::kCast && IsFloat(node.result()->type.dtype) &&
         node.operand(0)->producer != nullptr &&
         node.operand(0)->producer->kind == OpKind::kUnpackInt4;
}

// An element of a value of a region's body.
struct Element {
  const Value* value;
  Exprs index;
};

// The element that a view reads for `element`; nullopt for other ops, or if it is not known.
std::optional<Element> SourceOf(const Element& element, const Ranges& ranges) {
  if (element.value->producer == nullptr) return std::nullopt;
  const Node& node = *element.value->producer;
  if (GetOpDef(node.kind).op_class != OpClass::kView) return std::nullopt;
  const auto sources = ElementSources(node, 0, element.index, ranges, NoIndexIsKnown);
  if (!sources || sources->size() != 1 || (*sources)[0].operand < 0) return std::nullopt;
  return Element{node.operand((*sources)[0].operand), (*sources)[0].index};
}

// Writes the load of the bytes of `count` consecutive codes from `codes` on, the result of
// CastsCodes; nullopt, and nothing is written, if they do not fill aligned bytes of a constant.
std::optional<CExpr> LoadPacked(RegionLowering& lowering, const Element& codes, int64_t count,
                                const CExpr& count_name) {
  KernelBuilder& builder = lowering.builder();
  const Ranges& ranges = builder.ranges();
  const Value* pairs = lowering.Outside(codes.value->producer->operand(0)->producer->operand(0));
  const Expr first = Linearize(codes.index, codes.value->type.shape, ranges);
  if (!IsConstant(pairs) || count % 4 != 0 || !IsMultiple(first, count) ||
      !IsMultiple(codes.value->type.shape.back(), 2))
    return std::nullopt;
  builder.Use("vector.cuh");
  const CExpr buffer = builder.Buffer(pairs);
  const CExpr bytes = count_name / builder.expressions().Constant("codes_per_byte", 2,
                                                                  "4-bit codes that share a byte");
  const CExpr begin = PointerTo(builder, buffer, FloorDiv(first, 2, ranges),
                                PlaceIn(buffer.word(), pairs->type.shape));
  return builder.Let(VectorType("unsigned char", bytes), "packed",
                     Call(Template("LoadVector", {bytes}), {begin}));
}

// Whether the elements of a value are those of the only operand of its op.
bool PassesOn(const Value* value) {
  if (value->producer == nullptr || value->producer->operands.size() != 1) return false;
  const Node& node = *value->producer;
  return node.kind == OpKind::kCast || GetOpDef(node.kind).op_class == OpClass::kView;
}

// Whether the elements of a value are numbers in half precision.
bool IsHalf(const Value* value) {
  while (value->type.dtype != Dtype::kF16 && PassesOn(value)) value = value->producer->operand(0);
  return value->type.dtype == Dtype::kF16;
}

// Whether all elements are known to be integers from 0 to 1023.
bool AreSmallIntegers(const RegionLowering& lowering, const Value* value) {
  while (PassesOn(value)) value = value->producer->operand(0);
  const TensorData* data = lowering.ConstantPayload(value);
  for (int64_t i = 0; data != nullptr && i < data->element_count(); ++i) {
    const double number = data->GetDouble(i);
    if (!(number >= 0 && number < 1024 && number == std::floor(number))) return false;
  }
  return data != nullptr;
}

bool DependsOn(const Expr& expr, const std::string& variable) {
  std::vector<std::string> symbols;
  expr.CollectSymbols(symbols);
  return std::find(symbols.begin(), symbols.end(), VariableSymbol(variable)) != symbols.end();
}

bool DependsOn(const Exprs& index, const std::string& variable) {
  return std::any_of(index.begin(), index.end(),
                     [&](const Expr& axis) { return DependsOn(axis, variable); });
}

}  // namespace

void ReadCodes(RegionLowering& lowering, const Value* value, Exprs index) {
  KernelBuilder& builder = lowering.builder();
  if (!IsMadeOfCodes(value)) return;
  Element element{value, std::move(index)};
  while (!CastsCodes(*element.value->producer)) {
    const Node& node = *element.value->producer;
    if (const auto source = SourceOf(element, builder.ranges())) {
      element = *source;
    } else {
      const auto found = std::find_if(node.operands.begin(), node.operands.end(), IsMadeOfCodes);
      if (found == node.operands.end() || (*found)->type.shape != element.value->type.shape) return;
      element.value = *found;
    }
    if (!IsMadeOfCodes(element.value)) return;
  }
  const KernelBuilder::Lanes& lanes = *builder.lanes();
  Element first = element;  // of the lanes
  first.index.back() = first.index.back() - Variable(lanes.variable);
  if (DependsOn(first.index, lanes.variable)) return;
  const auto packed = LoadPacked(lowering, first, lanes.count, lanes.count_name);
  if (!packed) return;
  builder.Use("unpack_int4.cuh");
  const CExpr codes = builder.Let(CExpr::Type("auto"), "codes",
                                  Call(Template("UnpackInt4", {lanes.count_name}), {*packed}));
  lowering.Bind(element.value, element.index,
                {Cast("float", codes.Dot("at")[lanes.variable]), element.value->type.dtype});
}

std::optional<DequantizedPack> ReadDequantizedPack(RegionLowering& lowering, const Value* value,
                                                   const Exprs& index, int64_t lanes,
                                                   const CExpr& lanes_name) {
  KernelBuilder& builder = lowering.builder();
  const std::string lane = "lane";  // any of the elements
  builder.DefineVariable(lane, 0, lanes - 1);
  Element element{value, index};
  element.index.back() = element.index.back() + Variable(lane);
  const auto skip_views = [&] {
    while (const auto source = SourceOf(element, builder.ranges())) element = *source;
  };
  const auto is_made_by = [&](OpKind kind) {
    return element.value->producer != nullptr && element.value->producer->kind == kind;
  };
  // Goes to the operand of a binary op that has codes, and returns the same element of the other.
  const auto take_operand = [&](int side) -> std::optional<Element> {
    const Node& node = *element.value->producer;
    const Value* other = node.operand(1 - side);
    if (node.operand(side)->type.shape != element.value->type.shape) return std::nullopt;
    const Element found{other, BroadcastIndex(element.index, other->type.shape)};
    element.value = node.operand(side);
    if (DependsOn(found.index, lane)) return std::nullopt;
    return found;
  };
  skip_views();
  // Products of codes and a scale in half precision are exact in f32, so that it does not matter
  // whether they are rounded as halves or, by a cast, as floats.
  if (is_made_by(OpKind::kCast) && element.value->type.dtype == Dtype::kF16) {
    element.value = element.value->producer->operand(0);
    skip_views();
  }
  if (!is_made_by(OpKind::kMul)) return std::nullopt;
  const auto scale = take_operand(IsMadeOfCodes(element.value->producer->operand(0)) ? 0 : 1);
  if (!scale || !IsHalf(scale->value)) return std::nullopt;
  skip_views();
  std::optional<Element> zero;
  if (is_made_by(OpKind::kSub)) {
    zero = take_operand(0);
    if (!zero || !AreSmallIntegers(lowering, zero->value)) return std::nullopt;
    skip_views();
  }
  if (!is_made_by(OpKind::kCast) || !CastsCodes(*element.value->producer)) return std::nullopt;
  element.index.back() = element.index.back() - Variable(lane);
  if (DependsOn(element.index, lane)) return std::nullopt;
  const auto packed = LoadPacked(lowering, element, lanes, lanes_name);
  if (!packed) return std::nullopt;
  DequantizedPack pack;
  pack.packed = *packed;
  pack.zero = zero ? lowering.Evaluate(zero->value, zero->index).value : CExpr("0.0f");
  pack.scale = lowering.Evaluate(scale->value, scale->index).value;
  return pack;
}

}  // namespace fusec
