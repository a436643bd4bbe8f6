#include "passes/keep_packed_weights.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// Smaller weights are not worth a kernel that unpacks them.
constexpr int64_t kFewestWeights = 4096;
// The fewest weights of a block, that is, per scale.
constexpr int64_t kLeastBlock = 8;
// Ops between the constants and the weights; MatMulNBits needs 20.
constexpr int kMostOps = 64;

bool IsView(const Node& node) { return GetOpDef(node.kind).op_class == OpClass::kView; }
bool IsPointwise(const Node& node) {
  return GetOpDef(node.kind).op_class == OpClass::kPointwise && !node.operands.empty() &&
         node.results.size() == 1;
}
// Whether a view has the elements of its operand in the same order, or the first ones of each row.
bool KeepsOrder(const Node& node) {
  return node.kind == OpKind::kReshape || node.kind == OpKind::kSlice ||
         node.kind == OpKind::kIdentity;
}

int64_t Elements(const Value* value) { return value->type.ElementCount().AsConstant().value_or(0); }

// The least integer that occurs in the codes may be `least`, and the greatest one least + 15.
struct CodeRange {
  int64_t least = 0;
};

// The elements that are stored for a value that depends only on constants: of the constants behind
// repetitions. nullopt if it depends on an input, or on too many ops.
std::optional<int64_t> StoredElements(const Value* value, int& ops) {
  if (IsConstant(value)) return Elements(value);
  if (value == nullptr || value->producer == nullptr || ++ops > kMostOps) return std::nullopt;
  const Node& node = *value->producer;
  if (!IsView(node) && !IsPointwise(node) && node.kind != OpKind::kGather) return std::nullopt;
  int64_t most = 0;
  for (const Value* operand : node.operands) {
    if (operand == nullptr) continue;
    const auto stored = StoredElements(operand, ops);
    if (!stored) return std::nullopt;
    most = std::max(most, *stored);
  }
  const bool repeats = node.kind == OpKind::kExpand || node.kind == OpKind::kTile;
  return repeats ? most : Elements(value);
}

// The range of 4 bits in which all elements of an integer value are.
std::optional<CodeRange> RangeOf(const Value* value) {
  if (value == nullptr || value->producer == nullptr || !IsInteger(value->type.dtype))
    return std::nullopt;
  const Node& node = *value->producer;
  if (const TensorData* data = Payload(value)) {
    CodeRange range;
    for (int64_t i = 0; i < data->element_count(); ++i) {
      const int64_t code = data->GetInt(i);
      if (code < -8 || code > 15) return std::nullopt;
      if (code < 0) range.least = -8;
    }
    for (int64_t i = 0; i < data->element_count() && range.least < 0; ++i) {
      if (data->GetInt(i) > 7) return std::nullopt;
    }
    return range;
  }
  if (IsView(node)) {
    CodeRange range;
    for (const Value* operand : node.operands) {
      const auto part = RangeOf(operand);
      if (!part || (operand != node.operand(0) && part->least != range.least)) return std::nullopt;
      range = *part;
    }
    return range;
  }
  const bool is_unsigned = IsUnsigned(value->type.dtype);
  const auto number = node.operands.size() == 2 ? ScalarConstant(node.operand(1)) : std::nullopt;
  if (node.kind == OpKind::kBitwiseAnd && number && *number >= 0 && *number <= 15)
    return CodeRange();
  if (node.kind == OpKind::kDiv && value->type.dtype == Dtype::kU8 && number && *number >= 16)
    return CodeRange();
  if (node.kind == OpKind::kCast && is_unsigned) {
    const auto range = RangeOf(node.operand(0));
    return range && range->least == 0 ? range : std::nullopt;
  }
  return std::nullopt;
}

// The integers that the weights of a product are made from, and the op that makes them floats.
struct Codes {
  Node* to_float;
  CodeRange range;
};

class Finder {
 public:
  Finder(const Graph& graph, const ReaderMap& readers) : graph_(graph), readers_(readers) {}

  std::optional<Codes> CodesOf(const Node& product) const {
    if (product.kind != OpKind::kMatMul || product.operand(0) == product.operand(1))
      return std::nullopt;
    const Value* weights = product.operand(1);
    bool along_depth = product.Int("transpose_b") != 0;
    // Walk from the weights to the codes. Only the last transpose turns rows into columns.
    for (int ops = 0; ops < kMostOps; ++ops) {
      Node* node = weights->producer;
      if (node == nullptr || node->results.size() != 1 || !HasOneReader(graph_, readers_, weights))
        return std::nullopt;
      if (node->kind == OpKind::kCast && IsInteger(node->operand(0)->type.dtype)) {
        if (!along_depth || !IsFloat(weights->type.dtype)) return std::nullopt;
        return Packable(*node);
      }
      if (node->kind == OpKind::kTranspose && !along_depth && weights->type.rank() == 2) {
        along_depth = true;
        weights = node->operand(0);
      } else if (KeepsOrder(*node)) {
        weights = node->operand(0);
      } else if (IsPointwise(*node)) {
        weights = MainOperand(*node);
        if (weights == nullptr) return std::nullopt;
      } else {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

 private:
  // The operand with as many elements as the result, if the others are far smaller constants.
  static const Value* MainOperand(const Node& node) {
    const Value* main = nullptr;
    const int64_t count = Elements(node.result());
    for (const Value* operand : node.operands) {
      int ops = 0;
      const auto stored = operand ? StoredElements(operand, ops) : 0;
      if (!stored) return nullptr;
      if (*stored * kLeastBlock <= count) continue;
      if (main != nullptr || operand->type.shape != node.result()->type.shape) return nullptr;
      main = operand;
    }
    return main;
  }

  static std::optional<Codes> Packable(Node& to_float) {
    const Value* codes = to_float.operand(0);
    int ops = 0;
    const auto columns = codes->type.shape.empty() ? 0 : codes->type.shape.back().AsConstant();
    if (!StoredElements(codes, ops) || Elements(codes) < kFewestWeights || !columns ||
        *columns % 2 != 0)
      return std::nullopt;
    const auto range = RangeOf(codes);
    if (!range) return std::nullopt;
    return Codes{&to_float, *range};
  }

  const Graph& graph_;
  const ReaderMap& readers_;
};

// Packs the codes, which are then 0 to 15, into pairs, and unpacks them.
Value* PackedAndUnpacked(Builder& builder, Value* codes, CodeRange range) {
  const std::string& name = codes->name;
  const Dtype dtype = codes->type.dtype;
  const int64_t columns = *codes->type.shape.back().AsConstant();
  const auto cast = [&](Value* value, Dtype to) {
    if (value->type.dtype == to) return value;
    return builder.Make(OpKind::kCast, {value}, {{"to", to}}, name + "_cast");
  };
  const auto shifted = [&](OpKind kind, Value* value) {
    if (range.least == 0) return value;
    const double shift = static_cast<double>(-range.least);
    return builder.Make(kind, {value, builder.Scalar(dtype, shift)}, {}, name + "_shifted");
  };
  Shape pairs(codes->type.shape);
  pairs.back() = columns / 2;
  Value* bytes = cast(shifted(OpKind::kAdd, codes), Dtype::kU8);
  Shape apart = pairs;
  apart.push_back(2);
  bytes = ReshapeTo(builder, bytes, apart, name + "_apart");
  const auto half = [&](int64_t low) {
    const auto axis = static_cast<int64_t>(pairs.size());
    return ReshapeTo(builder, Sliced(builder, bytes, axis, low, low + 1), pairs, name + "_half");
  };
  Value* high =
      builder.Make(OpKind::kMul, {half(1), builder.Scalar(Dtype::kU8, 16)}, {}, name + "_high");
  Value* packed = builder.Make(OpKind::kAdd, {half(0), high}, {}, name + "_pairs");
  Value* unpacked =
      builder.Make(OpKind::kUnpackInt4, {packed}, {{"columns", columns}}, name + "_unpacked");
  return shifted(OpKind::kSub, cast(unpacked, dtype));
}

}  // namespace

Result<bool> KeepPackedWeights(Graph& graph, const PassOptions&, PassReport&) {
  const ReaderMap readers = Readers(graph);
  const Finder finder(graph, readers);
  DenseMap<const Node*, CodeRange> found;
  for (const auto& node : graph.nodes) {
    if (const auto codes = finder.CodesOf(*node)) found[codes->to_float] = codes->range;
  }
  if (found.empty()) return false;
  ReplaceResults(graph, [&](const Node& node, Builder& builder) -> Value* {
    const auto codes = found.find(&node);
    if (codes == found.end()) return nullptr;
    Value* unpacked = PackedAndUnpacked(builder, node.operand(0), codes->second);
    return builder.Make(OpKind::kCast, {unpacked}, node.attributes, node.result()->name);
  });
  return true;
}

}  // namespace fusec
