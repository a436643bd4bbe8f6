#include "passes/access_probe.h"

#include <algorithm>

#include "compiler/index/variables.h"
#include "compiler/ir/element_sources.h"
#include "compiler/ir/op_def.h"
#include "compiler/region/block_stages.h"
#include "compiler/region/reducers.h"
#include "passes/op_probe.h"

namespace fusec {

// Follows the elements of operands from which one element of a node's result is computed.
class ProbedElement : public OpProbe {
 public:
  ProbedElement(AccessProbe& probe, const Node& node, int result, ArrayRef<Expr> index)
      : probe_(probe) {
    node_ = &node;
    index_ = Exprs(index);
    result_number_ = result;
  }
  const Ranges& ranges() const override { return probe_.ranges_; }
  Scalar Load(int operand, ArrayRef<Expr> index) override {
    const Value* value = node_->operands[operand];
    probe_.Follows(value, index);
    return {kScalar, value->type.dtype};
  }
  Scalar SelectBelow(const Expr& position, const Expr& limit, Dtype dtype,
                     function_ref<Scalar()> then, function_ref<Scalar()> otherwise) override {
    if (!ranges().ProvenNonNegative(position - limit)) then();
    if (!ranges().ProvenLess(position, limit)) otherwise();
    return {kScalar, dtype};
  }

 protected:
  Expr AnyBelow(const Expr& extent) override {
    return SetVariable(probe_.ranges_, "step_" + std::to_string(probe_.fresh_++), 0, extent - 1);
  }

 private:
  AccessProbe& probe_;
};

Exprs AccessProbe::AnyElementOf(ShapeRef shape) { return AnyIndex(shape, ranges_); }

bool AccessProbe::Follows(const Value* value, ArrayRef<Expr> index) {
  if (auto expected = expected_.find(value); expected != expected_.end()) {
    if (expected->second != index) good_ = false;
    return good_;
  }
  if (auto expected = expected_rows_.find(value); expected != expected_rows_.end()) {
    const Exprs& row = expected->second;
    if (!std::equal(row.begin(), row.end(), index.begin())) good_ = false;
    return good_;
  }
  return FollowsProducer(value, index);
}

bool AccessProbe::FollowsProducer(const Value* value, ArrayRef<Expr> index) {
  if (!good_ || !value->producer || !group_.count(value->producer)) return good_;
  std::string key = value->name;
  for (const Expr& e : index) key += "|" + e.ToString();
  if (!visited_.insert(key).second) return good_;
  if (IsReducer(*value->producer)) return FollowsReducer(*value->producer, index);
  const OpFunctions& functions = GetOpDef(value->producer->kind).functions;
  if (!functions.lower) return good_ = false;
  ProbedElement element(*this, *value->producer, value->result_index, index);
  functions.lower(element);
  return good_;
}

bool AccessProbe::FollowsReducer(const Node& reducer, ArrayRef<Expr> index) {
  const bool is_matmul = reducer.kind == OpKind::kMatMul;
  if (!is_matmul && !reducer.Has("axes")) return good_ = false;  // ArgMax is never asked for
  Exprs k;
  for (const Expr& dim : is_matmul ? Shape{MatMulDepth(reducer)} : ReducedDims(reducer)) {
    const Expr step = SetVariable(ranges_, "step_" + std::to_string(fresh_++), 0, dim - 1);
    k.push_back(dim.IsConstant(1) ? Expr(0) : step);
  }
  if (!is_matmul) return Follows(reducer.operand(0), ReductionOperandIndex(reducer, index, k));
  return Follows(reducer.operand(0), MatMulOperandIndex(reducer, 0, index, k[0])) &&
         Follows(reducer.operand(1), MatMulOperandIndex(reducer, 1, index, k[0]));
}

}  // namespace fusec
