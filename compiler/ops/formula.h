#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

class ImportContext;

// Adds the nodes of formulas to a graph, for Decompose and Import: `f.Div(f.Sub(x, mean),
// deviation)`.
class Formula {
 public:
  // For Decompose: every call must be valid, because the composite's Infer has already rejected bad
  // operands.
  explicit Formula(Builder& builder) : builder_(builder) {}
  // For Import: the first error of an op is kept, all later calls do nothing, and Finish returns
  // the error.
  explicit Formula(ImportContext& context);
  // Makes `outputs` the results of the ONNX node. Null means that the output must not be used; the
  // node may lack optional outputs.
  Result<void> Finish(ArrayRef<Value*> outputs);

  // A result is named `name`, which generated code shows, or else after its op.
  Value* Unary(OpKind kind, Value* x, const std::string& name = "") {
    return Make(kind, {x}, {}, name);
  }
  Value* Add(Value* a, Value* b) { return Make(OpKind::kAdd, {a, b}); }
  Value* Sub(Value* a, Value* b, const std::string& name = "") {
    return Make(OpKind::kSub, {a, b}, {}, name);
  }
  Value* Mul(Value* a, Value* b, const std::string& name = "") {
    return Make(OpKind::kMul, {a, b}, {}, name);
  }
  Value* Div(Value* a, Value* b) { return Make(OpKind::kDiv, {a, b}); }
  Value* Add(Value* a, double b) { return Add(a, Number(b, a->type.dtype)); }
  Value* Mul(Value* a, double b) { return Mul(a, Number(b, a->type.dtype)); }
  Value* Div(Value* a, double b) { return Div(a, Number(b, a->type.dtype)); }
  Value* Where(Value* condition, Value* then, Value* otherwise) {
    return Make(OpKind::kWhere, {condition, then, otherwise});
  }
  Value* Make(OpKind kind, ArrayRef<Value*> operands, Attributes attributes = {},
              const std::string& name = "");
  Value* Number(double value, Dtype dtype, const std::string& name = "constant");

  // These return x itself if the node would change nothing.
  Value* Cast(Value* x, Dtype dtype);
  Value* Reshape(Value* x, ShapeRef shape);
  // Reshapes a vector, or one element, so that it broadcasts along `axis` of a tensor of `rank`
  // axes.
  Value* AlongAxis(Value* x, int64_t axis, int64_t rank);
  Value* Expand(Value* x, ShapeRef shape);
  Value* Transpose(Value* x, ArrayRef<int64_t> perm);

  // `length` elements of one axis: `begin`, `begin` + `step`, ...
  Value* Slice(Value* x, int axis, const Expr& begin, const Expr& length, int64_t step = 1,
               const std::string& name = "");
  Value* Concat(ValueList parts, int axis);
  // Rows of `table` (along `axis`), one per element of `indices`.
  Value* Gather(Value* table, Value* indices, int64_t axis = 0);
  // As Gather, but out-of-range `indices` always fail the run, whatever --index-policy says.
  Value* GatherOrFail(Value* table, Value* indices, int64_t axis = 0);
  // Converts indices into `size` elements (a scalar i64) to i64 with negative ones counted from the
  // end.
  Value* FromStart(Value* indices, Value* size);
  // start, start + 1, ... (`length` elements, i64).
  Value* Iota(const Expr& start, const Expr& length);
  Value* Reduce(OpKind kind, Value* x, ArrayRef<int64_t> axes, bool keepdims = true,
                const std::string& name = "");
  Value* Mean(Value* x, ArrayRef<int64_t> axes, const std::string& name) {
    return Reduce(OpKind::kReduceMean, x, axes, /*keepdims=*/true, name);
  }
  Value* MatMul(Value* a, Value* b, bool transpose_a = false, bool transpose_b = false);
  // exp(x - max) / sum(exp(x - max)) along `axis`.
  Value* Softmax(Value* x, int64_t axis);
  // A constant of `dims`, row-major.
  Value* Tensor(Dtype dtype, std::vector<int64_t> dims, std::vector<double> values);

 private:
  Builder& builder_;
  ImportContext* context_ = nullptr;
  std::optional<Error> problem_;
};

// The dtype in which a composite op computes its intermediate results: f32 for f16 and bf16, which
// would be rounded too often.
Dtype ComputeDtype(Dtype dtype);
// The axes from `first` to the last.
std::vector<int64_t> AxesFrom(int64_t first, int rank);

}  // namespace fusec
