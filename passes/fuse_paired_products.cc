#include "passes/fuse_paired_products.h"

#include <algorithm>
#include <array>
#include <optional>

#include "compiler/region/product.h"
#include "passes/fuse_matmul_tail.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// The most terms for which one generated kernel beats the library with a loop behind it at all
// numbers of rows. The loop reads both products and writes the result. On an H200, 2048 rows by two
// of [1024, 1024] take 28 us by one kernel and 39 us otherwise in TF32; in f16, two of [384, 1024]
// take 10.3 us and 11.7 us, but two of [512, 1408] 17.6 us and 15.6 us
// (2026-11-30-h200-paired-products.txt).
constexpr int64_t kTermsOfHalves = 384, kTermsOfTf32 = 1536;
// With so few rows, generated kernels compute all products.
constexpr int64_t kFewRows = 64;

// Two products of the same rows, of `columns` columns each.
struct Pair {
  Value* rows = nullptr;
  ValueList weights;  // one matrix for each product, or one for both; [columns, depth]
  // The two products; each may also have several equal views (split-views).
  std::array<ValueList, 2> halves;
  NodeSet nodes;  // that make these

  const Value* first() const { return halves[0][0]; }
  int64_t columns() const { return *first()->type.shape.back().AsConstant(); }
};

bool TakesWeights(const Node& product) {
  const auto shape = FindProductShape(product);
  return shape && shape->matrices == 1 && shape->k > kTinySum &&
         product.operand(1)->type.rank() == 2 && IsConstant(product.operand(1)) &&
         !product.Has("to") && !FindFloat8Rows(product);
}

// The halves of a product that only slices read.
std::optional<Pair> HalvesOf(const Graph& graph, const ReaderMap& readers, const Node& product) {
  const auto found = readers.find(product.result());
  if (found == readers.end() || IsOutput(graph, product.result())) return std::nullopt;
  const int64_t columns = FindProductShape(product)->n;
  Pair pair{product.operand(0), {product.operand(1)}, {}, {&product}};
  for (Node* slice : found->second) {
    const auto span = slice->kind == OpKind::kSlice ? SpanOf(*slice) : std::nullopt;
    if (!span || span->axis != product.result()->type.rank() - 1 ||
        2 * (span->high - span->low) != columns || (span->low != 0 && span->high != columns) ||
        !slice->result()->type.shape.back().IsConstant(columns / 2))
      return std::nullopt;
    pair.halves[span->low == 0 ? 0 : 1].push_back(slice->result());
    pair.nodes.insert(slice);
  }
  if (pair.halves[0].empty() || pair.halves[1].empty()) return std::nullopt;
  return pair;
}

bool IsLike(const Node& product, const Node& other) {
  return &product != &other && other.kind == OpKind::kMatMul &&
         other.operand(0) == product.operand(0) && TakesWeights(other) &&
         other.result()->type.ToString() == product.result()->type.ToString();
}

// The pairs that the product may belong to, as its first half.
std::vector<Pair> PairsOf(const Graph& graph, const ReaderMap& readers, const Node& product) {
  if (const auto halves = HalvesOf(graph, readers, product)) return {*halves};
  std::vector<Pair> pairs;
  for (Node* other : readers.at(product.operand(0))) {
    if (IsLike(product, *other))
      pairs.push_back({product.operand(0),
                       {product.operand(1), other->operand(1)},
                       {ValueList{product.result()}, ValueList{other->result()}},
                       {&product, other}});
  }
  return pairs;
}

// Adds the ops behind the halves to their group; returns whether these combine the halves to a
// single value of the same shape.
bool AddCombination(const Graph& graph, const ReaderMap& readers, const Pair& pair,
                    NodeSet& group) {
  const ShapeRef shape = pair.first()->type.shape;
  if (!IsConvex(graph, group)) return false;
  AddTail(graph, readers, shape, group);
  const Value* combined = nullptr;
  for (const Node* node : group) {
    for (const auto& result : node->results) {
      if (!ReadersOf(graph, readers, group, result.get()).outside) continue;
      if (combined) return false;
      combined = result.get();
    }
  }
  return combined && !pair.nodes.count(combined->producer) &&
         ShapeRef(combined->type.shape) == shape;
}

// The columns of both matrices, kPairedColumns of each in turns.
Value* Interleaved(Builder& builder, const Pair& pair) {
  const std::string& name = pair.weights[0]->name;
  Value* both = pair.weights[0];
  if (pair.weights.size() > 1)
    both = builder.Make(OpKind::kConcat, pair.weights, {{"axis", int64_t{0}}}, name + "_both");
  const Shape shape = both->type.shape;
  const Shape in_parts{2, pair.columns() / kPairedColumns, kPairedColumns, shape[1]};
  Value* parts = ReshapeTo(builder, both, in_parts, name + "_parts");
  const std::vector<int64_t> perm = {1, 0, 2, 3};
  Value* turned = builder.Make(OpKind::kTranspose, {parts}, {{"perm", perm}}, name + "_turned");
  return ReshapeTo(builder, turned, shape, name + "_paired");
}

// Replaces the halves by slices of one product; returns the nodes that make these.
NodeSet Rewrite(Graph& graph, const Node& product, const Pair& pair) {
  const auto at = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                               [&](const auto& node) { return node.get() == &product; });
  Builder builder(graph, static_cast<size_t>(at - graph.nodes.begin()));
  builder.set_provenance(product.provenance);
  Value* weights = Interleaved(builder, pair);
  NodeSet nodes;
  const auto add = [&](Value* value) {
    nodes.insert(value->producer);
    return value;
  };
  const Value* half = pair.first();
  Value* both = add(builder.Make(OpKind::kMatMul, {pair.rows, weights}, product.attributes,
                                 half->name + "_paired"));
  Shape shape(half->type.shape.begin(), half->type.shape.end() - 1);
  const auto axis = static_cast<int64_t>(shape.size()) + 1;
  shape.insert(shape.end(), {pair.columns() / kPairedColumns, 2, kPairedColumns});
  Value* parts = add(ReshapeTo(builder, both, shape, both->name + "_parts"));
  for (int64_t i = 0; i < 2; ++i) {
    const ValueList& old = pair.halves[static_cast<size_t>(i)];
    Value* part = add(Sliced(builder, parts, axis, i, i + 1, old[0]->name + "_part"));
    Value* own = add(ReshapeTo(builder, part, old[0]->type.shape, old[0]->name));
    for (Value* copy : old) graph.ReplaceAllUses(copy, own);
    std::swap(own->name, old[0]->name);
  }
  return nodes;
}

bool IsFast(const Graph& graph, const Node& product, const PassOptions& options) {
  const ProductShape shape = *FindProductShape(product);
  const Dtype dtype = FactorDtype(product);
  if (IsSplit(dtype, options.matmul_precision)) return IsAheadOfLibrary(shape);
  const Shape& result = product.result()->type.shape;
  const Expr rows = Product(Shape(result.begin(), result.end() - 1));
  return shape.k <= (dtype == Dtype::kF32 ? kTermsOfTf32 : kTermsOfHalves) ||
         graph.SymbolRanges().IntervalOf(rows).high <= kFewRows;
}

// Fuses a pair that the product belongs to; returns it, or nullopt if there is none.
std::optional<Pair> FusePair(Graph& graph, const ReaderMap& readers, const Node& product) {
  for (const Pair& pair : PairsOf(graph, readers, product)) {
    NodeSet group = pair.nodes;
    if (pair.columns() % kPairedColumns != 0 || !AddCombination(graph, readers, pair, group))
      continue;
    for (const Node* node : pair.nodes) group.erase(node);
    for (const Node* node : Rewrite(graph, product, pair)) group.insert(node);
    RemoveDeadNodes(graph);
    SortNodes(graph);
    MakeRegion(graph, group, RegionClass::kMatMul);
    return pair;
  }
  return std::nullopt;
}

}  // namespace

Result<bool> FusePairedProducts(Graph& graph, const PassOptions& options, PassReport&) {
  if (!options.has_clusters) return false;
  const bool changed = RemoveDeadNodes(graph);  // so that later only the nodes of pairs are removed
  std::vector<const Node*> products;
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kMatMul && TakesWeights(*node)) products.push_back(node.get());
  }
  NodeSet fused;
  ReaderMap readers = Readers(graph);
  for (const Node* product : products) {
    if (fused.count(product) || !IsFast(graph, *product, options)) continue;
    const std::optional<Pair> pair = FusePair(graph, readers, *product);
    if (!pair) continue;
    fused.insert(pair->nodes.begin(), pair->nodes.end());
    readers = Readers(graph);
  }
  return changed || !fused.empty();
}

}  // namespace fusec
