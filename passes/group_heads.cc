#include "passes/group_heads.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/op_def.h"
#include "compiler/region/attention_parts.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// With at least so many queries a tile of attention is full without other heads' queries.
constexpr int64_t kManyQueries = 16;

// Matrices [batch, groups, 1, rows, columns] that are repeated for the heads of their group.
struct Repeated {
  Value* matrices = nullptr;
  int64_t heads = 0;           // of a group
  bool is_transposed = false;  // behind the repetition
  ValueList factors = {};      // constants of one element that multiply the repeated matrices
};

// The matrices that `merge`, a reshape of an expand, repeats.
std::optional<Repeated> RepeatedBy(const Node& merge) {
  const Node* expand = ProducerOf(merge.operand(0), OpKind::kExpand);
  if (!expand || expand->result()->type.rank() != 5) return std::nullopt;
  const Shape &one = expand->operand(0)->type.shape, &all = expand->result()->type.shape;
  if (one.size() != 5 || !one[2].IsConstant(1) || all[2].AsConstant().value_or(1) < 2)
    return std::nullopt;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i != 2 && one[i] != all[i]) return std::nullopt;
  }
  const Expr heads = all[1] * all[2];
  const Shape apart = {all[0], heads, all[3], all[4]}, merged = {all[0] * heads, all[3], all[4]};
  const Shape& shape = merge.result()->type.shape;
  if (shape != apart && shape != merged) return std::nullopt;
  return Repeated{expand->operand(0), *all[2].AsConstant()};
}

// The matrices that `value` repeats, [batch, groups * heads, rows, columns], or with the first two
// axes as one. Behind the repetition may be transposes, factors, and reshapes of the first axes, as
// PyTorch exports scaled_dot_product_attention.
std::optional<Repeated> RepeatedIn(const Value* value) {
  const Node* node = value->producer;
  const int rank = value->type.rank();
  if (!node || (rank != 3 && rank != 4)) return std::nullopt;
  if (node->kind == OpKind::kTranspose) {
    std::vector<int64_t> turned = {0, 1, 2, 3};
    turned.resize(static_cast<size_t>(rank));
    std::swap(turned.back(), turned[turned.size() - 2]);
    if (node->Ints("perm") != turned) return std::nullopt;
    auto found = RepeatedIn(node->operand(0));
    if (found) found->is_transposed = !found->is_transposed;
    return found;
  }
  if (node->kind == OpKind::kMul) {
    const int side = IsConstant(node->operand(0)) ? 0 : 1;
    Value* factor = node->operand(side);
    if (!IsConstant(factor) || !factor->type.ElementCount().IsConstant(1) ||
        node->operand(1 - side)->type != value->type)
      return std::nullopt;
    auto found = RepeatedIn(node->operand(1 - side));
    if (found) found->factors.push_back(factor);
    return found;
  }
  if (node->kind != OpKind::kReshape) return std::nullopt;
  if (auto found = RepeatedBy(*node)) return found;
  const Shape& from = node->operand(0)->type.shape;
  const Shape& to = value->type.shape;
  const bool keeps_matrices =
      from.size() >= 3 && from.back() == to.back() && from[from.size() - 2] == to[to.size() - 2];
  return keeps_matrices ? RepeatedIn(node->operand(0)) : std::nullopt;
}

// Whether the value follows from positions and constants alone.
bool IsOfPositions(const Value* value, int depth = 16) {
  const Node* node = value ? value->producer : nullptr;
  if (!node) return value == nullptr;
  return depth > 0 &&
         std::all_of(node->operands.begin(), node->operands.end(),
                     [&](Value* operand) { return IsOfPositions(operand, depth - 1); });
}

class Grouping {
 public:
  Grouping(const Graph& graph, const AttentionParts& parts, Builder& builder)
      : graph_(graph), parts_(parts), builder_(builder) {}

  // The result of the attention, computed in groups; null if it is not to be.
  Value* Run() {
    if (!IsWanted()) return nullptr;
    const auto keys = RepeatedIn(parts_.scores->operand(1)),
               values = RepeatedIn(parts_.values->operand(1));
    if (!keys || !values || keys->heads != values->heads || !values->factors.empty())
      return nullptr;
    const Shape& all = parts_.scores->result()->type.shape;  // [batch, heads, queries, keys]
    const Shape& of_keys = keys->matrices->type.shape;
    const Shape& of_values = values->matrices->type.shape;
    const Shape& of_queries = parts_.scores->operand(0)->type.shape;
    if (of_keys[0] != all[0] || of_values[0] != all[0] || of_keys[1] != of_values[1] ||
        of_queries[0] != all[0] || of_queries[1] != all[1] || of_keys[1] * keys->heads != all[1])
      return nullptr;  // some are broadcast
    heads_ = keys->heads;
    groups_ = of_keys[1];
    queries_ = all[2];
    std::vector<const Node*> between;
    for (const auto& node : graph_.nodes) {
      if (parts_.nodes.count(node.get()) != 0) between.push_back(node.get());
    }
    for (const Node* node : between) {
      builder_.set_provenance(node->provenance);
      grouped_[node->result()] =
          node == parts_.scores   ? Product(*node, Scaled(Rows(node->operand(0)), *keys), *keys)
          : node == parts_.values ? Product(*node, grouped_.at(node->operand(0)), *values)
                                  : Grouped(*node);
    }
    const Value* result = parts_.values->result();
    const Shape& shape = result->type.shape;
    Value* apart = ReshapeTo(builder_, grouped_.at(result),
                             {shape[0], groups_, queries_, heads_, shape[3]}, result->name);
    return ReshapeTo(builder_, Turned(apart), shape, result->name);
  }

 private:
  bool IsWanted() const {
    const Node &scores = *parts_.scores, &values = *parts_.values;
    const Shape& shape = scores.result()->type.shape;
    if (!parts_.has_softmax || shape.size() != 4 || scores.Int("transpose_a") != 0 ||
        values.Int("transpose_b") != 0 || scores.operand(0)->type.rank() != 4 ||
        graph_.SymbolRanges().IntervalOf(shape[2]).low >= kManyQueries)
      return false;
    const ReaderMap readers = Readers(graph_);
    return std::all_of(parts_.nodes.begin(), parts_.nodes.end(), [&](const Node* node) {
      const Shape& own = node->result()->type.shape;
      const bool fits = own.size() == 4 && own[1] == shape[1] && own[2] == shape[2] &&
                        node->kind != OpKind::kReshape;
      return fits && !HidesByPosition(*node) &&
             (node == &values || !ReadersOf(graph_, readers, parts_.nodes, *node).outside);
    });
  }

  // Whether a select, or a sum with a mask that is computed, hides keys by their position.
  bool HidesByPosition(const Node& node) const {
    if (node.kind == OpKind::kWhere) return IsOfPositions(node.operand(0));
    return node.kind == OpKind::kAdd &&
           std::any_of(node.operands.begin(), node.operands.end(), [&](const Value* operand) {
             return parts_.nodes.count(operand->producer) == 0 && !IsConstant(operand) &&
                    IsOfPositions(operand);
           });
  }

  // [batch, heads, queries, columns] as [batch, groups, queries * heads of a group, columns]: the
  // heads of a query are next to each other.
  Value* Rows(Value* x) {
    const Shape& shape = x->type.shape;
    Value* apart = ReshapeTo(builder_, x, {shape[0], groups_, heads_, queries_, shape[3]}, x->name);
    return ReshapeTo(builder_, Turned(apart), {shape[0], groups_, queries_ * heads_, shape[3]},
                     x->name);
  }

  // The rows times the factors of the keys.
  Value* Scaled(Value* rows, const Repeated& keys) {
    for (Value* factor : keys.factors) {
      if (factor->type.rank() > 0) factor = ReshapeTo(builder_, factor, {}, factor->name);
      rows = builder_.Make(OpKind::kMul, {rows, factor}, {}, rows->name);
    }
    return rows;
  }

  // With the third and the fourth of five axes exchanged.
  Value* Turned(Value* x) {
    const std::vector<int64_t> perm = {0, 1, 3, 2, 4};
    return builder_.Make(OpKind::kTranspose, {x}, {{"perm", perm}}, x->name);
  }

  Value* Product(const Node& node, Value* rows, const Repeated& repeated) {
    const Shape& shape = repeated.matrices->type.shape;
    Value* matrices = ReshapeTo(builder_, repeated.matrices,
                                {shape[0], shape[1], shape[3], shape[4]}, repeated.matrices->name);
    Attributes attributes = node.attributes;
    if (repeated.is_transposed && &node == parts_.scores) {
      attributes["transpose_b"] = 1 - node.Int("transpose_b");
    } else if (repeated.is_transposed) {
      const std::vector<int64_t> turned = {0, 1, 3, 2};
      matrices = builder_.Make(OpKind::kTranspose, {matrices}, {{"perm", turned}}, matrices->name);
    }
    return builder_.Make(OpKind::kMatMul, {rows, matrices}, attributes, node.result()->name);
  }

  Value* Grouped(const Node& node) {
    ValueList operands;
    for (Value* operand : node.operands) {
      const auto known = grouped_.find(operand);
      operands.push_back(known != grouped_.end() ? known->second : Outside(operand));
    }
    return builder_.Make(node.kind, operands, node.attributes, node.result()->name);
  }

  // An operand that is broadcast to the scores, for the grouped scores.
  Value* Outside(Value* x) {
    if (!x || x->type.rank() < 2) return x;
    Shape shape = x->type.shape;
    shape.insert(shape.begin(), 4 - shape.size(), Expr(1));
    const bool has_heads = !shape[1].IsConstant(1), has_queries = !shape[2].IsConstant(1);
    if (!has_heads && !has_queries) return x;
    if (has_heads && has_queries) return Rows(ReshapeTo(builder_, x, shape, x->name));
    const Shape apart = {shape[0], has_heads ? groups_ : Expr(1), shape[2],
                         has_heads ? Expr(heads_) : Expr(1), shape[3]};
    const Shape all = {shape[0], apart[1], queries_, heads_, shape[3]};
    Value* rows = builder_.Make(OpKind::kExpand, {ReshapeTo(builder_, x, apart, x->name)},
                                {{"shape", all}}, x->name);
    return ReshapeTo(builder_, rows, {shape[0], all[1], queries_ * heads_, shape[3]}, x->name);
  }

  const Graph& graph_;
  const AttentionParts& parts_;
  Builder& builder_;
  int64_t heads_ = 1;  // of a group
  Expr groups_, queries_;
  DenseMap<const Value*, Value*> grouped_;
};

}  // namespace

Result<bool> GroupHeads(Graph& graph, const PassOptions&, PassReport&) {
  return ReplaceResults(graph, [&](const Node& node, Builder& builder) -> Value* {
    const auto parts = FindAttention(node);
    return parts ? Grouping(graph, *parts, builder).Run() : nullptr;
  });
}

}  // namespace fusec
