#include "passes/keep_packed_weights.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// Smaller weights are not worth a kernel that unpacks them, and matrices of low rank may be an
// adapter, whose weights other passes need.
constexpr int64_t kFewestWeights = 4096, kLowRank = 64;
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

// The elements that are stored for a value that depends only on constants, if views and pointwise
// ops behind repetitions are computed where they are needed. nullopt if it depends on an input, or
// on too many ops.
std::optional<int64_t> StoredElements(const Value* value, int& ops) {
  if (IsConstant(value)) return Elements(value);
  if (value == nullptr || value->producer == nullptr || ++ops > kMostOps) return std::nullopt;
  const Node& node = *value->producer;
  if (node.kind == OpKind::kGather) return Elements(value);
  if (!IsView(node) && !IsPointwise(node)) return std::nullopt;
  int64_t most = 0;
  for (const Value* operand : node.operands) {
    if (operand == nullptr) continue;
    const auto stored = StoredElements(operand, ops);
    if (!stored) return std::nullopt;
    most = std::max(most, *stored);
  }
  return std::min(most, Elements(value));
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
  if (node.kind == OpKind::kGather) return RangeOf(node.operand(0));
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

// The weights of a product that are made from 4-bit codes.
struct Found {
  Node* to_float;  // makes floats of the codes
  CodeRange range;
  // Pointwise ops between the codes and the product, from the weights down, if the codes have rows
  // of the depth, [depth, columns]. The weights are then transposed.
  std::vector<Node*> turned;
};

class Finder {
 public:
  Finder(const Graph& graph, const ReaderMap& readers) : graph_(graph), readers_(readers) {}

  std::optional<Found> PackedWeights(const Node& product) const {
    if (product.kind != OpKind::kMatMul || product.operand(0) == product.operand(1) ||
        HasLowRank(product.operand(1)->type))
      return std::nullopt;
    const Value* weights = product.operand(1);
    bool along_depth = product.Int("transpose_b") != 0;
    bool has_views = false;
    Found found{nullptr, {}, {}};
    // Walk from the weights to the codes. Only the last transpose turns rows into columns.
    for (int ops = 0; ops < kMostOps; ++ops) {
      Node* node = weights->producer;
      if (node == nullptr || node->results.size() != 1 || !HasOneReader(graph_, readers_, weights))
        return std::nullopt;
      if (node->kind == OpKind::kCast && IsInteger(node->operand(0)->type.dtype)) {
        const bool turns = !along_depth && !has_views && !found.turned.empty();
        if (!(along_depth || turns) || !IsFloat(weights->type.dtype)) return std::nullopt;
        if (along_depth) found.turned.clear();
        found.to_float = node;
        return Packable(std::move(found));
      }
      if (node->kind == OpKind::kTranspose && !along_depth && weights->type.rank() == 2) {
        along_depth = true;
        weights = node->operand(0);
      } else if (KeepsOrder(*node)) {
        has_views = true;
        weights = node->operand(0);
      } else if (IsPointwise(*node)) {
        weights = MainOperand(*node);
        if (weights == nullptr) return std::nullopt;
        found.turned.push_back(node);
      } else {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

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

 private:
  static bool HasLowRank(const TensorType& matrix) {
    return std::any_of(matrix.shape.begin(), matrix.shape.end(), [](const Expr& extent) {
      return extent.AsConstant().value_or(0) <= kLowRank;
    });
  }

  static std::optional<Found> Packable(Found found) {
    const Value* codes = found.to_float->operand(0);
    int ops = 0;
    const Shape& shape = codes->type.shape;
    if (shape.empty() || !StoredElements(codes, ops) || Elements(codes) < kFewestWeights)
      return std::nullopt;
    // Found::turned lists at least the op behind the cast if the codes have rows of the depth.
    const auto length = (found.turned.empty() ? shape.back() : shape[0]).AsConstant();
    const auto range = RangeOf(codes);
    if (!length || *length % 2 != 0 || !range) return std::nullopt;
    found.range = *range;
    return found;
  }

  const Graph& graph_;
  const ReaderMap& readers_;
};

// The codes as floats, packed into pairs, in which they are 0 to 15, and unpacked.
Value* FloatsOfCodes(Builder& builder, Value* codes, const Found& found) {
  const Value* floats = found.to_float->result();
  const std::string& name = floats->name;
  const int64_t columns = *codes->type.shape.back().AsConstant();
  const auto cast = [&](Value* value, Dtype to) {
    if (value->type.dtype == to) return value;
    return builder.Make(OpKind::kCast, {value}, {{"to", to}}, name + "_codes");
  };
  const auto shifted = [&](OpKind kind, Value* value) {
    if (found.range.least == 0) return value;
    const double shift = static_cast<double>(-found.range.least);
    Value* number = builder.Scalar(value->type.dtype, shift);
    return builder.Make(kind, {value, number}, {}, name + "_shifted");
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
  Value* packed = builder.Make(OpKind::kAdd, {half(0), high}, {}, name + "_packed");
  Value* unpacked =
      builder.Make(OpKind::kUnpackInt4, {packed}, {{"columns", columns}}, name + "_unpacked");
  return shifted(OpKind::kSub, cast(unpacked, floats->type.dtype));
}

// A value of a matrix's shape, or one that is broadcast to it, for the transposed matrix.
Value* Turned(Builder& builder, Value* value) {
  if (value->type.rank() == 0) return value;
  if (value->type.rank() == 1)
    return ReshapeTo(builder, value, {value->type.shape[0], 1}, value->name + "_turned");
  return builder.Make(OpKind::kTranspose, {value}, {{"perm", std::vector<int64_t>{1, 0}}},
                      value->name + "_turned");
}

// The transposed weights, made by the same ops from transposed codes.
Value* TurnedWeights(Builder& builder, const Found& found) {
  Value* codes = Turned(builder, found.to_float->operand(0));
  Value* weights = FloatsOfCodes(builder, codes, found);
  for (auto node = found.turned.rbegin(); node != found.turned.rend(); ++node) {
    const Value* main = Finder::MainOperand(**node);
    ValueList operands;
    for (Value* operand : (*node)->operands) {
      Value* turned = operand == nullptr ? nullptr
                      : operand == main  ? weights
                                         : Turned(builder, operand);
      operands.push_back(turned);
    }
    weights = builder.Make((*node)->kind, operands, (*node)->attributes,
                           (*node)->result()->name + "_turned");
  }
  return weights;
}

}  // namespace

Result<bool> KeepPackedWeights(Graph& graph, const PassOptions&, PassReport&) {
  const ReaderMap readers = Readers(graph);
  const Finder finder(graph, readers);
  DenseMap<const Node*, Found> casts, products;  // by the op that is replaced
  for (const auto& node : graph.nodes) {
    auto found = finder.PackedWeights(*node);
    if (!found) continue;
    const bool turns = !found->turned.empty();
    (turns ? products : casts)[turns ? node.get() : found->to_float] = *std::move(found);
  }
  if (casts.empty() && products.empty()) return false;
  ReplaceResults(graph, [&](const Node& node, Builder& builder) -> Value* {
    if (const auto found = casts.find(&node); found != casts.end())
      return FloatsOfCodes(builder, node.operand(0), found->second);
    const auto found = products.find(&node);
    if (found == products.end()) return nullptr;
    Attributes attributes = node.attributes;
    attributes["transpose_b"] = int64_t{1};
    Value* weights = TurnedWeights(builder, found->second);
    return builder.Make(OpKind::kMatMul, {node.operand(0), weights}, attributes,
                        node.result()->name);
  });
  return true;
}

}  // namespace fusec
