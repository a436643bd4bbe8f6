#include "compiler/import/split_products.h"

#include <algorithm>

#include "compiler/ops/formula.h"

namespace fusec {

namespace {

// The concatenation, if the node is such a product and the sizes of the parts are known.
const Node* ConcatOf(const Node& product) {
  const bool is_gemm = product.kind == OpKind::kGemm;
  if ((product.kind != OpKind::kMatMul && !is_gemm) || product.Int("transpose_a") != 0 ||
      product.operand(1)->type.rank() != 2)
    return nullptr;
  if (is_gemm && (product.Float("alpha") != 1 || product.Float("beta") != 1)) return nullptr;
  const Node* concat = product.operand(0)->producer;
  if (concat == nullptr || concat->kind != OpKind::kConcat ||
      concat->Int("axis") != concat->result()->type.rank() - 1)
    return nullptr;
  const bool are_known =
      std::all_of(concat->operands.begin(), concat->operands.end(),
                  [](const Value* part) { return part->type.shape.back().AsConstant(); });
  return are_known ? concat : nullptr;
}

}  // namespace

void SplitProductsOfConcats(Graph& graph, std::vector<Value*>& outputs) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& product = *graph.nodes[i];
    const Node* concat = ConcatOf(product);
    if (concat == nullptr) continue;
    Builder builder(graph, i);
    Formula f(builder);
    const bool transposed = product.Int("transpose_b") != 0;
    Value* sum = nullptr;
    int64_t first = 0;
    for (Value* part : concat->operands) {
      const int64_t size = *part->type.shape.back().AsConstant();
      Value* weights = f.Slice(product.operand(1), transposed ? 1 : 0, first, size);
      Value* term = f.MatMul(part, weights, false, transposed);
      sum = sum ? f.Add(sum, term) : term;
      first += size;
    }
    if (product.kind == OpKind::kGemm && product.operand(2) != nullptr)
      sum = f.Add(sum, product.operand(2));
    graph.ReplaceAllUses(product.result(), sum);
    std::replace(outputs.begin(), outputs.end(), product.result(), sum);
    i = builder.insert_at();
  }
}

}  // namespace fusec
