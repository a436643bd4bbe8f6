#include "compiler/region/product.h"

#include "compiler/ir/op_def.h"
#include "compiler/plan/matmul/product_planner.h"
#include "compiler/plan/plan_program.h"
#include "compiler/plan/plan_region.h"

namespace fusec {

namespace {

// Sets `stride`, the elements between the matrices of consecutive products, for an operand of
// `shape`. Its batch dims must be those of the result, or all 1 (stride 0: all products share one
// matrix); else returns false.
bool BatchStride(ShapeRef shape, ShapeRef result, Expr& stride) {
  const Shape batch(shape.begin(), shape.end() - 2);
  const Expr count = Product(batch);
  if (count.IsConstant(1)) {
    stride = 0;
    return true;
  }
  if (count != Product(Shape(result.begin(), result.end() - 2))) return false;
  stride = shape[shape.size() - 2] * shape.back();
  return true;
}

// Whether `type` has one row of the result's columns for each of several (not too many) matrices.
bool HasRowOfEachMatrix(const TensorType& type, const MatMulPlan& plan) {
  const int64_t matrices = plan.batch.AsConstant().value_or(0);
  return matrices > 1 && matrices <= kMostMatrices && type.rank() > 2 &&
         type.shape.back() == plan.n && type.shape[type.rank() - 2].IsConstant(1) &&
         type.ElementCount() == plan.batch * plan.n;
}

// Makes the other operand of `add` the bias or the addend of the plan, if possible.
bool Adds(const Node& region, const Node& add, TargetKind target, MatMulPlan& plan) {
  const int side = OperandOf(region, add.operand(1)) ? 1 : 0;
  const Value* other = OperandOf(region, add.operand(side));
  if (!other) return false;
  const TensorType& type = add.operand(side)->type;
  const Expr count = type.ElementCount();
  if (!plan.bias && count == plan.n && type.rank() > 0 && type.shape.back() == plan.n) {
    plan.bias = other;
  } else if (!plan.bias && target == TargetKind::kGpu && HasRowOfEachMatrix(type, plan)) {
    plan.bias = other;
    plan.bias_stride = plan.n;
  } else if (!plan.addend && target == TargetKind::kGpu && count == plan.batch * plan.m * plan.n &&
             plan.k.AsConstant().value_or(0) > 0) {
    plan.addend = other;
  } else {
    return false;
  }
  plan.bytes_read = plan.bytes_read + other->type.Bytes();
  return true;
}

}  // namespace

std::optional<MatMulPlan> PlanProduct(const Node& region) {
  const Node* matmul = nullptr;
  for (const auto& node : region.body->nodes) {
    if (node->kind != OpKind::kMatMul) continue;
    if (matmul) return std::nullopt;
    matmul = node.get();
  }
  if (!matmul || !(IsFloat(matmul->result()->type.dtype) || matmul->Has("to"))) return std::nullopt;
  MatMulPlan plan;
  plan.a.value = OperandOf(region, matmul->operand(0));
  plan.b.value = OperandOf(region, matmul->operand(1));
  if (!plan.a.value) plan.made = matmul->operand(0);
  if (!plan.b.value) {
    plan.b.value = DenseOperand(region);
    plan.made_right = matmul->operand(1);
  }
  if (!plan.b.value) return std::nullopt;
  plan.result = region.result();
  const Dtype dtype = matmul->result()->type.dtype;
  plan.dtype = IsFloat(dtype) ? FactorDtype(*matmul) : dtype;
  plan.a.transposed = matmul->Int("transpose_a") != 0;
  plan.b.transposed = matmul->Int("transpose_b") != 0;
  if (const auto rows = plan.made ? FindFloat8Rows(*matmul) : std::nullopt) {
    plan.codes = OperandOf(region, rows->codes);
    plan.factors = OperandOf(region, rows->factors);
  }
  const Shape& a = matmul->operand(0)->type.shape;
  const Shape& b = matmul->operand(1)->type.shape;
  const Shape& d = matmul->result()->type.shape;
  plan.m = d[d.size() - 2];
  plan.n = d.back();
  plan.k = a[a.size() - (plan.a.transposed ? 2 : 1)];
  plan.batch = Product(Shape(d.begin(), d.end() - 2));
  if (!BatchStride(a, d, plan.a.batch_stride) || !BatchStride(b, d, plan.b.batch_stride)) {
    return std::nullopt;
  }
  // If all products share one right-hand matrix, the batch only adds rows.
  if (plan.b.batch_stride.IsConstant(0) && !plan.a.transposed &&
      !plan.a.batch_stride.IsConstant(0)) {
    plan.m = plan.batch * plan.m;
    plan.batch = 1;
    plan.a.batch_stride = 0;
  }
  plan.bytes_read = plan.b.value->type.Bytes();
  if (plan.a.value) plan.bytes_read = plan.a.value->type.Bytes() + plan.bytes_read;
  plan.bytes_written = plan.result->type.Bytes();
  plan.flops = plan.batch * plan.m * plan.n * plan.k * 2;
  return plan;
}

std::optional<MatMulPlan> PlanLibraryMatMul(const Node& region, TargetKind target) {
  auto plan = PlanProduct(region);
  if (!plan || plan->made || region.results.size() != 1) return std::nullopt;
  if (plan->dtype != plan->result->type.dtype) return std::nullopt;  // the library rounds to it
  const NodeSet of_weights = NodesBehind(plan->made_right);
  for (const auto& node : region.body->nodes) {
    if (of_weights.count(node.get()) != 0) continue;
    if (node->kind == OpKind::kAdd) {
      if (plan->activation != "none" || !Adds(region, *node, target, *plan)) return std::nullopt;
    } else if (node->kind == OpKind::kRelu || node->kind == OpKind::kGelu) {
      if (plan->activation != "none") return std::nullopt;
      plan->activation = node->kind == OpKind::kRelu ? "relu" : "gelu_tanh";
    } else if (node->kind != OpKind::kReshape && node->kind != OpKind::kMatMul) {
      return std::nullopt;
    }
  }
  if (plan->addend && plan->bias_stride != 0) return std::nullopt;
  return plan;
}

}  // namespace fusec
