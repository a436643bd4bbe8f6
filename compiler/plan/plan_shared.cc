#include <algorithm>

#include "compiler/ir/element_sources.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/region_class.h"
#include "compiler/kernel/fold.h"
#include "compiler/plan/plan_region.h"
#include "compiler/region/traffic.h"

namespace fusec {

namespace {

constexpr int64_t kMostInInt = INT32_MAX / 2;

// Whether no intermediate result of an index expression exceeds half of the range of int.
bool FitsInt(const Expr& expr, const Ranges& ranges) {
  const Ranges::Interval interval = ranges.IntervalOf(expr);
  if (interval.low < -kMostInInt || interval.high > kMostInInt) return false;
  for (const Expr::Term& term : expr.terms()) {
    for (const AtomRef& atom : term.atoms) {
      if (!FitsInt(atom->left, ranges) || !FitsInt(atom->right, ranges)) return false;
    }
  }
  return true;
}

// Whether the indices from which `view` reads its elements are computed without large intermediate
// numbers, such as positions in the whole tensor.
bool KeepsIndicesSmall(const Node& view, Ranges ranges) {
  const Exprs index = AnyIndex(view.result()->type.shape, ranges);
  const auto sources = ElementSources(view, 0, index, ranges, NoIndexIsKnown);
  if (!sources) return false;
  return std::all_of(sources->begin(), sources->end(), [&](const ElementSource& source) {
    return std::all_of(source.index.begin(), source.index.end(),
                       [&](const Expr& place) { return FitsInt(place, ranges); });
  });
}

}  // namespace

void ChooseIndexType(const Node& region, KernelBuilder& builder) {
  if (builder.target() == TargetKind::kCpu) {
    builder.plan().index_type = "long long";
    builder.expressions().CountInLongLong();
    return;
  }
  auto fits = [&](const Value* value) {
    return builder.ranges().IntervalOf(value->type.ElementCount()).high <= kMostInInt;
  };
  bool all_fit = true;
  for (const Value* operand : region.operands) all_fit &= fits(operand);
  for (const auto& result : region.results) all_fit &= fits(result.get());
  // The scores of attention and the intermediate values of a product's kernel have no positions in
  // a tensor unless a view needs them.
  const bool is_product = RegionClassOf(region) == RegionClass::kMatMul;
  const bool only_views = is_product || RegionClassOf(region) == RegionClass::kAttention;
  for (const auto& node : region.body->nodes) {
    if (only_views && GetOpDef(node->kind).op_class != OpClass::kView) continue;
    if (is_product && KeepsIndicesSmall(*node, region.body->SymbolRanges())) continue;
    for (const auto& result : node->results) all_fit &= fits(result.get());
  }
  builder.plan().index_type = all_fit ? "int" : "long long";
  if (!all_fit) builder.expressions().CountInLongLong();
}

void CountTraffic(const Node& region, KernelPlan& plan) {
  const Graph& body = *region.body;
  const Ranges ranges = body.SymbolRanges();
  for (size_t i = 0; i < region.operands.size(); ++i)
    plan.bytes_read = plan.bytes_read + RegionBytesRead(region, i, ranges);
  plan.bytes_written = plan.bytes_written + RegionBytesWritten(region);
  for (const auto& node : body.nodes) {
    const OpClass op_class = GetOpDef(node->kind).op_class;
    for (const auto& result : node->results) {
      const bool is_output =
          std::find(body.outputs.begin(), body.outputs.end(), result.get()) != body.outputs.end();
      const bool is_free = op_class == OpClass::kView || node->kind == OpKind::kConstant;
      if (!is_output && !is_free) plan.bytes_kept = plan.bytes_kept + result->type.Bytes();
    }
    if (op_class == OpClass::kPointwise)
      plan.flops = plan.flops + node->result()->type.ElementCount();
    if (node->kind == OpKind::kMatMul)
      plan.flops = plan.flops + node->result()->type.ElementCount() * MatMulDepth(*node) * 2;
    if (node->kind == OpKind::kSlotMatMul)
      plan.flops = plan.flops +
                   node->result()->type.ElementCount() * node->operand(0)->type.shape.back() * 2;
    else if (op_class == OpClass::kReduction || Folds(*node)) {
      plan.flops = plan.flops + node->operands[0]->type.ElementCount();
    }
  }
}

CExpr TensorCoreArithmetic(Dtype dtype, const std::string& precision) {
  if (dtype == Dtype::kF16) return "Arithmetic::kHalf";
  if (dtype == Dtype::kBF16) return "Arithmetic::kBFloat16";
  return precision == "highest" ? "Arithmetic::kSplitTf32" : "Arithmetic::kTf32";
}

}  // namespace fusec
