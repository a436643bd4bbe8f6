#include "passes/order_pairs.h"

#include <optional>

#include "passes/constant_linear.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

constexpr int64_t kAlignment = 16;  // bytes

// The pairwise products of two vectors, first[.., a, 1] and second[.., 1, b], flattened to rows of
// a * b elements.
struct Pairs {
  Value *first, *second;
  int64_t a, b;
};

// Whether `rows` is a view of a multiplication; a quick test, since few values are.
bool IsOfProducts(const Value* rows) {
  const Node* view = rows->producer;
  if (!view || view->kind != OpKind::kReshape) return false;
  const Node* products = view->operand(0)->producer;
  return products && products->kind == OpKind::kMul;
}

std::optional<Pairs> FindPairs(const Graph& graph, const ReaderMap& readers, const Value* rows) {
  if (!IsOfProducts(rows) || !HasOneReader(graph, readers, rows)) return std::nullopt;
  const Node* products = rows->producer->operand(0)->producer;
  if (products->result()->type.rank() < 3 || !HasOneReader(graph, readers, products->result()))
    return std::nullopt;
  const Shape& shape = products->result()->type.shape;
  const size_t rank = shape.size();
  const auto a = shape[rank - 2].AsConstant(), b = shape[rank - 1].AsConstant();
  if (!a || !b || !rows->type.shape.back().IsConstant(*a * *b)) return std::nullopt;
  const auto has = [&](const Value* value, size_t one, size_t all) {
    const Shape& own = value->type.shape;
    return own.size() == rank && own[one].IsConstant(1) && own[all] == shape[all];
  };
  for (int side = 0; side < 2; ++side) {
    Value *first = products->operand(side), *second = products->operand(1 - side);
    if (has(first, rank - 1, rank - 2) && has(second, rank - 2, rank - 1))
      return Pairs{first, second, *a, *b};
  }
  return std::nullopt;
}

// Swaps the last two axes, of which one has one element.
Value* Turned(Builder& builder, Value* vector) {
  Shape shape = vector->type.shape;
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  return builder.Make(OpKind::kReshape, {vector}, {{"shape", shape}}, vector->name);
}

// The weights of terms in the order a * b, reordered for terms in the order b * a.
Value* Ordered(Builder& builder, const Node& matmul, const Pairs& pairs) {
  Value* weights = matmul.operand(1);
  const bool transposed = matmul.Int("transpose_b") != 0;
  const Shape& shape = weights->type.shape;
  const Shape cut =
      transposed ? Shape{shape[0], pairs.a, pairs.b} : Shape{pairs.a, pairs.b, shape[1]};
  const std::vector<int64_t> perm =
      transposed ? std::vector<int64_t>{0, 2, 1} : std::vector<int64_t>{1, 0, 2};
  Value* in_pairs =
      builder.Make(OpKind::kReshape, {weights}, {{"shape", cut}}, weights->name + "_in_pairs");
  Value* ordered = builder.Make(OpKind::kTranspose, {in_pairs}, {{"perm", perm}},
                                weights->name + "_turned_pairs");
  return builder.Make(OpKind::kReshape, {ordered}, {{"shape", shape}}, weights->name + "_ordered");
}

bool OrderPairsOf(Graph& graph, size_t& place) {
  Node& matmul = *graph.nodes[place];
  if (matmul.kind != OpKind::kMatMul || !IsOfProducts(matmul.operand(0)) || !RightWeights(matmul))
    return false;
  const ReaderMap readers = Readers(graph);
  const auto pairs = FindPairs(graph, readers, matmul.operand(0));
  const int64_t pack = kAlignment / DtypeBytes(matmul.result()->type.dtype);
  if (!pairs || pairs->b % pack == 0 || pairs->a % pack != 0) return false;
  const Node &view = *matmul.operand(0)->producer, &products = *view.operand(0)->producer;
  Builder builder(graph, place);
  builder.set_provenance(products.provenance);
  Value* turned =
      builder.Make(OpKind::kMul, {Turned(builder, pairs->second), Turned(builder, pairs->first)},
                   {}, products.result()->name);
  Value* rows = builder.Make(OpKind::kReshape, {turned}, view.attributes, view.result()->name);
  builder.set_provenance(matmul.provenance);
  matmul.operands = {rows, Ordered(builder, matmul, *pairs)};
  std::swap(turned->name, products.result()->name);
  std::swap(rows->name, view.result()->name);
  place = builder.insert_at();
  return true;
}

}  // namespace

Result<bool> OrderPairs(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) changed |= OrderPairsOf(graph, i);
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace fusec
