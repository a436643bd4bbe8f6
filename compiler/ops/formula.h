#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// Writes formulas into a graph, for Decompose and Import: `f.Div(f.Sub(x, mean), deviation)`. Every
// call is correct by construction, what could be wrong with the operands having been rejected by
// the composite's Infer.
class Formula {
 public:
  explicit Formula(Builder& builder) : builder_(builder) {}

  // A result is called `name`, which generated code shows, or else as its op.
  Value* Unary(OpKind kind, Value* x, const std::string& name = "") {
    return builder_.Make(kind, {x}, {}, name);
  }
  Value* Add(Value* a, Value* b) { return builder_.Make(OpKind::kAdd, {a, b}); }
  Value* Sub(Value* a, Value* b, const std::string& name = "") {
    return builder_.Make(OpKind::kSub, {a, b}, {}, name);
  }
  Value* Mul(Value* a, Value* b, const std::string& name = "") {
    return builder_.Make(OpKind::kMul, {a, b}, {}, name);
  }
  Value* Div(Value* a, Value* b) { return builder_.Make(OpKind::kDiv, {a, b}); }
  Value* Add(Value* a, double b) { return Add(a, Number(b, a->type.dtype)); }
  Value* Mul(Value* a, double b) { return Mul(a, Number(b, a->type.dtype)); }
  Value* Div(Value* a, double b) { return Div(a, Number(b, a->type.dtype)); }
  Value* Where(Value* condition, Value* then, Value* otherwise) {
    return builder_.Make(OpKind::kWhere, {condition, then, otherwise});
  }
  Value* Number(double value, Dtype dtype, const std::string& name = "constant");

  // x itself where the node would change nothing.
  Value* Cast(Value* x, Dtype dtype);
  Value* Reshape(Value* x, ShapeRef shape);
  Value* Expand(Value* x, ShapeRef shape);
  Value* Transpose(Value* x, ArrayRef<int64_t> perm);

  // Elements `begin`, `begin` + `step`, ... of one axis, `length` of them.
  Value* Slice(Value* x, int axis, const Expr& begin, const Expr& length, int64_t step = 1,
               const std::string& name = "");
  Value* Concat(ValueList parts, int axis);
  // Rows of `table` (axis 0), one per element of `indices`.
  Value* Gather(Value* table, Value* indices);
  // start, start + 1, ..., `length` of them, as i64.
  Value* Iota(const Expr& start, const Expr& length);
  Value* Reduce(OpKind kind, Value* x, ArrayRef<int64_t> axes, bool keepdims = true,
                const std::string& name = "");
  Value* Mean(Value* x, ArrayRef<int64_t> axes, const std::string& name) {
    return Reduce(OpKind::kReduceMean, x, axes, /*keepdims=*/true, name);
  }
  Value* MatMul(Value* a, Value* b, bool transpose_a = false, bool transpose_b = false);
  // exp(x - max) / sum(exp(x - max)) along `axis`.
  Value* Softmax(Value* x, int64_t axis);

 private:
  Builder& builder_;
};

// In which dtype a composite computes between its operands and results: f32 for f16 and bf16, whose
// steps would round too often.
Dtype ComputeDtype(Dtype dtype);
// The axes from `first` to the last.
std::vector<int64_t> AxesFrom(int64_t first, int rank);

}  // namespace fusec
