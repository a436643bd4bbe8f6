#include "passes/fold_symmetric.h"

#include <cmath>
#include <numeric>

#include "compiler/ir/op_def.h"
#include "passes/constant_linear.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

constexpr int64_t kWidestBlock = 16;

// The value of which `value` is a reshape; `value` itself if it is none.
Value* BehindReshapes(Value* value) {
  while (value->producer && value->producer->kind == OpKind::kReshape)
    value = value->producer->operand(0);
  return value;
}

// `x` if `flat` is the flattened outer product of `x` with itself; otherwise null.
Value* VectorOfOuterProduct(Value* flat) {
  const Node* outer = BehindReshapes(flat)->producer;
  if (!outer || outer->kind != OpKind::kMul) return nullptr;
  Value* x = BehindReshapes(outer->operand(0));
  const Shape& shape = outer->result()->type.shape;
  if (x != BehindReshapes(outer->operand(1)) || shape.size() < 2 || x->type.rank() == 0)
    return nullptr;
  const Expr n = x->type.shape.back();
  Shape column(shape), row(shape), whole(x->type.shape);
  column.back() = row[row.size() - 2] = 1;
  whole.back() = n * n;
  const Shape& first = outer->operand(0)->type.shape;
  const Shape& second = outer->operand(1)->type.shape;
  const bool is_outer = shape.back() == n && shape[shape.size() - 2] == n &&
                        flat->type.shape == whole &&
                        ((first == column && second == row) || (first == row && second == column));
  return is_outer ? x : nullptr;
}

// The pairs that stay: element first[p] with the `width` elements of block blocks[p]. All pairs of
// the same two blocks are neighbors, so that neighboring pairs read few different elements.
struct Pairs {
  int64_t width = 1;
  std::vector<int64_t> first, blocks;
};

Pairs PairsOf(int64_t n) {
  Pairs pairs;
  pairs.width = std::gcd(n, kWidestBlock);
  for (int64_t begin = 0; begin < n; begin += pairs.width) {
    for (int64_t block = begin / pairs.width; block < n / pairs.width; ++block) {
      for (int64_t i = begin; i < begin + pairs.width; ++i) {
        pairs.first.push_back(i);
        pairs.blocks.push_back(block);
      }
    }
  }
  return pairs;
}

// Records what Fold computes, from weights [results, n, n]: for each block of rows, the columns
// from this block on; to those behind the block, the mirrored weights are added.
Value* Folded(Recipe& recipe, const ConstantMatrix& weights, const Pairs& pairs, int64_t n) {
  const int64_t results = weights.results(), width = pairs.width;
  Value* matrices = recipe.Turned(recipe.Exact(weights.constant), !weights.transposed);
  matrices = recipe.Reshape(matrices, {results, n, n});
  ValueList parts;
  for (int64_t begin = 0, end = width; begin < n; begin = end, end += width) {
    Value* rows = recipe.Slice(matrices, 1, begin, end);
    parts.push_back(recipe.Reshape(recipe.Slice(rows, 2, begin, end), {results, width * width}));
    if (end == n) break;
    Value* columns = recipe.Slice(recipe.Slice(matrices, 2, begin, end), 1, end, n);
    Value* mirrored =
        recipe.Make(OpKind::kTranspose, {columns}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
    Value* sums = recipe.Add(recipe.Slice(rows, 2, end, n), mirrored);
    sums = recipe.Reshape(sums, {results, width, (n - end) / width, width});
    sums = recipe.Make(OpKind::kTranspose, {sums}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    parts.push_back(recipe.Reshape(sums, {results, width * (n - end)}));
  }
  return recipe.Concat(parts, 1);
}

// The folded weights, [results, pairs]; nullopt if a sum is not finite.
std::optional<MadeConstant> Fold(const ConstantMatrix& weights, const Pairs& pairs, int64_t n) {
  const auto count = static_cast<int64_t>(pairs.first.size());
  TensorData folded(weights.data->dtype(), {weights.results(), count * pairs.width});
  int64_t to = 0;
  for (int64_t result = 0; result < weights.results(); ++result) {
    for (int64_t p = 0; p < count; ++p) {
      const int64_t i = pairs.first[p], begin = pairs.blocks[p] * pairs.width;
      for (int64_t j = begin; j < begin + pairs.width; ++j) {
        double weight = weights.At(i * n + j, result);
        if (begin > i) weight += weights.At(j * n + i, result);
        folded.SetDouble(to, weight);
        if (!std::isfinite(folded.GetDouble(to++))) return std::nullopt;
      }
    }
  }
  Recipe recipe;
  return recipe.Finish(Folded(recipe, weights, pairs, n), std::move(folded));
}

Value* Indices(Builder& builder, ArrayRef<int64_t> indices, const std::string& name) {
  return builder.Constant(
      TensorData::From(Dtype::kI32, {static_cast<int64_t>(indices.size())}, indices.vec()), name);
}

bool FoldProduct(Graph& graph, size_t place) {
  Node& product = *graph.nodes[place];
  if (product.kind != OpKind::kMatMul || !IsFloat(product.result()->type.dtype)) return false;
  const auto weights = RightWeights(product);
  Value* x = weights ? VectorOfOuterProduct(product.operand(0)) : nullptr;
  const int64_t n = x ? x->type.shape.back().AsConstant().value_or(0) : 0;
  if (n == 0) return false;
  const Pairs pairs = PairsOf(n);
  const int64_t left = static_cast<int64_t>(pairs.first.size()) * pairs.width;
  if (4 * left > 3 * n * n) return false;  // looking up the factors would cost more than it saves
  std::optional<MadeConstant> folded = Fold(*weights, pairs, n);
  if (!folded) return false;

  const std::string& name = product.operand(0)->name;
  const auto count = static_cast<int64_t>(pairs.first.size());
  const int64_t rank = x->type.rank();
  Shape blocks(x->type.shape), single(x->type.shape), flat(x->type.shape);
  blocks.back() = n / pairs.width;
  blocks.push_back(pairs.width);
  single.back() = count;
  single.push_back(1);
  flat.back() = count * pairs.width;
  Builder builder(graph, place);
  builder.set_provenance(BehindReshapes(product.operand(0))->producer->provenance);
  Value* first = builder.Make(OpKind::kGather, {x, Indices(builder, pairs.first, name + "_first")},
                              {{"axis", rank - 1}}, name + "_factor");
  Value* second =
      builder.Make(OpKind::kGather,
                   {builder.Make(OpKind::kReshape, {x}, {{"shape", blocks}}, name + "_in_blocks"),
                    Indices(builder, pairs.blocks, name + "_blocks")},
                   {{"axis", rank - 1}}, name + "_block");
  first = builder.Make(OpKind::kReshape, {first}, {{"shape", single}}, name + "_factors");
  Value* products = builder.Make(OpKind::kMul, {first, second}, {}, name + "_products");
  product.operands[0] =
      builder.Make(OpKind::kReshape, {products}, {{"shape", flat}}, name + "_pairs");
  product.operands[1] =
      AddConstant(builder, *std::move(folded), product.operand(1)->name + "_folded");
  product.attributes["transpose_b"] = int64_t{1};
  return true;
}

}  // namespace

Result<bool> FoldSymmetric(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const size_t before = graph.nodes.size();
    if (!FoldProduct(graph, i)) continue;
    i += graph.nodes.size() - before;  // the product itself, behind the new nodes
    changed = true;
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace fusec
