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
};

// The matrices that `value` [batch, groups * heads, rows, columns] repeats.
std::optional<Repeated> RepeatedIn(Value* value) {
  const std::vector<int64_t> turned = {0, 1, 3, 2};
  if (const Node* transpose = ProducerOf(value, OpKind::kTranspose)) {
    if (transpose->Ints("perm") != turned) return std::nullopt;
    auto found = RepeatedIn(transpose->operand(0));
    if (found) found->is_transposed = !found->is_transposed;
    return found;
  }
  const Node* merge = ProducerOf(value, OpKind::kReshape);
  const Node* expand = merge ? ProducerOf(merge->operand(0), OpKind::kExpand) : nullptr;
  if (!expand || value->type.rank() != 4 || expand->result()->type.rank() != 5) return std::nullopt;
  const Shape &one = expand->operand(0)->type.shape, &all = expand->result()->type.shape;
  if (one.size() != 5 || !one[2].IsConstant(1) || all[2].AsConstant().value_or(1) < 2)
    return std::nullopt;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i != 2 && one[i] != all[i]) return std::nullopt;
  }
  const Shape merged = {all[0], all[1] * all[2], all[3], all[4]};
  if (value->type.shape != merged) return std::nullopt;
  return Repeated{expand->operand(0), *all[2].AsConstant()};
}

// Whether the value follows from positions and constants alone.
bool IsOfPositions(const Value* value, int depth = 8) {
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
    if (!keys || !values || keys->heads != values->heads) return nullptr;
    const Shape& all = parts_.scores->result()->type.shape;  // [batch, heads, queries, keys]
    const Shape& of_keys = keys->matrices->type.shape;
    const Shape& of_values = values->matrices->type.shape;
    const Shape& of_queries = parts_.scores->operand(0)->type.shape;
    if (of_keys[0] != all[0] || of_values[0] != all[0] || of_keys[1] != of_values[1] ||
        of_queries[0] != all[0] || of_queries[1] != all[1])
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
          node == parts_.scores   ? Product(*node, Rows(node->operand(0)), *keys)
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
      const bool by_position = node->kind == OpKind::kWhere && IsOfPositions(node->operand(0));
      return fits && !by_position &&
             (node == &values || !ReadersOf(graph_, readers, parts_.nodes, *node).outside);
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

  // With the third and the fourth of five axes exchanged.
  Value* Turned(Value* x) {
    const std::vector<int64_t> perm = {0, 1, 3, 2, 4};
    return builder_.Make(OpKind::kTranspose, {x}, {{"perm", perm}}, x->name);
  }

  Value* Product(const Node& node, Value* rows, const Repeated& repeated) {
    const Shape& shape = repeated.matrices->type.shape;
    Value* matrices = ReshapeTo(builder_, repeated.matrices,
                                {shape[0], shape[1], shape[3], shape[4]}, repeated.matrices->name);
    if (repeated.is_transposed) {
      const std::vector<int64_t> turned = {0, 1, 3, 2};
      matrices = builder_.Make(OpKind::kTranspose, {matrices}, {{"perm", turned}}, matrices->name);
    }
    return builder_.Make(OpKind::kMatMul, {rows, matrices}, node.attributes, node.result()->name);
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
