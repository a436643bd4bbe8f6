#include "compiler/driver/build/batch_sums.h"

#include <algorithm>
#include <set>

#include "compiler/region/reducers.h"

namespace fusec {

namespace {

std::vector<std::string> SymbolsOf(const Expr& expr) {
  std::vector<std::string> symbols;
  expr.CollectSymbols(symbols);
  return symbols;
}

std::set<std::string> BatchSymbols(const Graph& graph) {
  std::set<std::string> batch;
  const auto look_at = [&](const Value* value) {
    if (value->type.rank() == 0) return;
    for (std::string& symbol : SymbolsOf(value->type.shape[0])) batch.insert(std::move(symbol));
  };
  for (const auto& input : graph.inputs) look_at(input.get());
  for (const Value* output : graph.outputs) look_at(output);
  return batch;
}

// The number of elements that one element of the node's result is reduced from; 1 for a node that
// is not a reduction.
Expr FoldedLength(const Node& node) {
  if (GetOpDef(node.kind).op_class == OpClass::kContraction) return MatMulDepth(node);
  if (IsReducer(node)) return Product(ReducedDims(node));
  const bool walks = node.kind == OpKind::kCumSum || node.kind == OpKind::kCumProd;
  return walks ? node.operand(0)->type.shape[node.Int("axis")] : Expr(1);
}

std::string NameOf(const Node& node) {
  const std::string op = GetOpDef(node.kind).text;
  if (node.provenance.empty()) return "\"" + node.result()->name + "\" (" + op + ")";
  const Origin& origin = node.provenance[0];
  return "\"" + (origin.onnx_node.empty() ? node.result()->name : origin.onnx_node) + "\" (" +
         origin.onnx_op + ")";
}

}  // namespace

std::vector<std::string> SumsOverBatch(const Graph& graph) {
  const std::set<std::string> batch = BatchSymbols(graph);
  std::vector<std::string> warnings;
  for (const auto& node : graph.nodes) {
    for (const std::string& symbol : SymbolsOf(FoldedLength(*node))) {
      if (batch.count(symbol) == 0) continue;
      warnings.push_back("even with --batch-invariant, the result of node " + NameOf(*node) +
                         " depends on the batch, because it reduces elements along \"" + symbol +
                         "\" to one");
      if (warnings.size() > 1 && warnings.back() == warnings[warnings.size() - 2])
        warnings.pop_back();  // an ONNX node such as a Softmax becomes several reductions
    }
  }
  return warnings;
}

}  // namespace fusec
