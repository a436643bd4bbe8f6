#include "passes/share_long_sums.h"

#include "compiler/ir/op_def.h"
#include "compiler/region/product.h"
#include "passes/constant_linear.h"
#include "passes/fuse_matmul_prologue.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

constexpr int64_t kShortestShare = 512;  // terms
constexpr int64_t kLittle = 4;  // the operand must have so many times the partial sums' bytes
constexpr int64_t kPack = 4;    // elements of 16 bytes

// The number of parts that a sum is split into; 1 leaves it whole.
int64_t SharesOf(int64_t terms, int64_t columns) {
  int64_t shares = 1;
  if (terms < kFewestSharedTerms) return shares;
  for (int64_t next = 2; next <= kMostMatrices; next *= 2) {
    const int64_t share = terms / next;
    if (terms % next != 0 || share % kPack != 0 || share < kShortestShare ||
        next * columns * kLittle > terms)
      break;
    shares = next;
  }
  return shares;
}

// Whether a loop makes `value`, which can then store it in any order.
bool IsMadeByLoop(const Value* value) {
  while (value->producer != nullptr && value->producer->kind == OpKind::kReshape)
    value = value->producer->operand(0);
  return value->producer != nullptr &&
         GetOpDef(value->producer->kind).op_class == OpClass::kPointwise;
}

// Reshapes [rows, terms] to [shares, rows, terms / shares].
Value* Shared(Builder& builder, Value* matrix, int64_t shares) {
  const Shape& shape = matrix->type.shape;
  const Shape cut = {shape[0], shares, *shape[1].AsConstant() / shares};
  Value* in_shares =
      builder.Make(OpKind::kReshape, {matrix}, {{"shape", cut}}, matrix->name + "_in_shares");
  return builder.Make(OpKind::kTranspose, {in_shares}, {{"perm", std::vector<int64_t>{1, 0, 2}}},
                      matrix->name + "_shares");
}

// The same for weights, which are [columns, terms] if `transposed`, and otherwise [terms, columns].
Value* SharedWeights(Builder& builder, Value* weights, bool transposed, int64_t shares) {
  if (transposed) return Shared(builder, weights, shares);
  const Shape& shape = weights->type.shape;
  const Shape cut = {shares, *shape[0].AsConstant() / shares, shape[1]};
  return builder.Make(OpKind::kReshape, {weights}, {{"shape", cut}}, weights->name + "_shares");
}

bool ShareSum(Graph& graph, size_t place, bool is_split, bool has_prologues) {
  const Node& product = *graph.nodes[place];
  if (product.kind != OpKind::kMatMul || product.Int("transpose_a") != 0 ||
      product.result()->type.dtype != Dtype::kF32)
    return false;
  Value *x = product.operand(0), *weights = product.operand(1);
  const ReaderMap readers = Readers(graph);
  if (x->type.rank() != 2 || weights->type.rank() != 2 || !IsConstant(weights) ||
      !IsMadeByLoop(x) || !HasOneReader(graph, readers, x))
    return false;
  const bool transposed = product.Int("transpose_b") != 0;
  const int64_t terms = *weights->type.shape[transposed ? 1 : 0].AsConstant();
  const int64_t columns = *weights->type.shape[transposed ? 0 : 1].AsConstant();
  const int64_t shares = SharesOf(terms, columns);
  if (shares == 1) return false;
  const bool library_is_ahead = !is_split && columns > kNarrowColumns;
  if (library_is_ahead && (!has_prologues || FindPrologue(graph, readers, product).empty()))
    return false;

  Builder builder(graph, place);
  builder.set_provenance(product.provenance);
  const std::string& name = product.result()->name;
  Value* parts = builder.Make(
      OpKind::kMatMul,
      {Shared(builder, x, shares), SharedWeights(builder, weights, transposed, shares)},
      product.attributes, name + "_parts");
  Value* sum = builder.Make(OpKind::kReduceSum, {parts},
                            {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}}, name);
  graph.ReplaceAllUses(product.result(), sum);
  std::swap(sum->name, product.result()->name);
  return true;
}

}  // namespace

Result<bool> ShareLongSums(Graph& graph, const PassOptions& options, PassReport&) {
  const bool is_split = IsSplit(Dtype::kF32, options.matmul_precision);
  const bool has_prologues = options.disabled_fusions.count("fuse-matmul-prologue") == 0;
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const size_t before = graph.nodes.size();
    if (!ShareSum(graph, i, is_split, has_prologues)) continue;
    i += graph.nodes.size() - before;
    changed = true;
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace fusec
