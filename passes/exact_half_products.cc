#include "passes/exact_half_products.h"

#include "compiler/region/product.h"
#include "compiler/support/adt.h"
#include "passes/graph_edit.h"
#include "passes/number_ranges.h"

namespace fusec {

namespace {

bool IsCandidate(const Node& node) {
  return FindProductShape(node) && node.operand(0)->type.dtype == Dtype::kF32 &&
         IsExactInHalf(node.operand(0)) && IsExactInHalf(node.operand(1));
}

}  // namespace

Result<bool> ExactHalfProducts(Graph& graph, const PassOptions& options, PassReport&) {
  if (options.block_shared_bytes == 0) return false;  // no tensor cores
  DenseMap<const Value*, Value*> halves;
  return ReplaceResults(graph, [&](const Node& node, Builder& builder) -> Value* {
    if (!IsCandidate(node)) return nullptr;
    const auto in_half = [&](Value* x) {
      Value*& half = halves[x];
      if (half == nullptr)
        half = builder.Make(OpKind::kCast, {x}, {{"to", Dtype::kF16}}, x->name + "_in_half");
      return half;
    };
    Value* left = in_half(node.operands[0]);
    Value* right = in_half(node.operands[1]);
    Attributes attributes = node.attributes;
    attributes["to"] = Dtype::kF32;
    return builder.Make(OpKind::kMatMul, {left, right}, std::move(attributes), node.result()->name);
  });
}

}  // namespace fusec
