#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/derivation.h"
#include "compiler/ir/graph.h"

namespace fusec {

// The elements of a new constant, and how they are computed from other constants.
struct MadeConstant {
  TensorData data;
  std::shared_ptr<Derivation> derivation;
};
Value* AddConstant(Builder& builder, MadeConstant made, const std::string& name);

// Records how a pass computes a constant from others, as a graph of ops. Every result has the dtype
// in which the pass computes it: sums and products of weights are f64 until they are rounded once.
//
//   Recipe recipe;
//   Value* product = recipe.MatMul(recipe.Exact(a), recipe.Exact(b));
//   return recipe.Finish(product, std::move(data));
class Recipe {
 public:
  Recipe();
  // Use makes a constant of the graph an input of the recipe; Exact also casts it to f64.
  Value* Use(const Value* constant);
  Value* Exact(const Value* constant) { return Cast(Use(constant), Dtype::kF64); }
  Value* Literal(TensorData data) { return builder_.Constant(std::move(data)); }
  Value* Number(double value, Dtype dtype = Dtype::kF64) { return builder_.Scalar(dtype, value); }

  Value* Make(OpKind kind, ArrayRef<Value*> operands, Attributes attributes = {}) {
    return builder_.Make(kind, operands, std::move(attributes));
  }
  Value* Add(Value* a, Value* b) { return Make(OpKind::kAdd, {a, b}); }
  Value* Sub(Value* a, Value* b) { return Make(OpKind::kSub, {a, b}); }
  Value* Mul(Value* a, Value* b) { return Make(OpKind::kMul, {a, b}); }
  Value* Div(Value* a, Value* b) { return Make(OpKind::kDiv, {a, b}); }
  Value* Where(Value* condition, Value* then, Value* otherwise) {
    return Make(OpKind::kWhere, {condition, then, otherwise});
  }
  Value* MatMul(Value* a, Value* b, bool transpose_a = false, bool transpose_b = false);
  Value* Reduce(OpKind kind, Value* x, int64_t axis, bool keepdims);
  Value* Gather(Value* x, Value* indices, int64_t axis);
  // These give `x` itself where they would change nothing.
  Value* Cast(Value* x, Dtype dtype);
  Value* Reshape(Value* x, ArrayRef<int64_t> dims);
  Value* Expand(Value* x, ArrayRef<int64_t> dims);
  Value* Turned(Value* matrix, bool turn = true);          // transposed
  Value* Padded(Value* x, int64_t axis, int64_t missing);  // with zeros at the end
  Value* Concat(ArrayRef<Value*> parts, int64_t axis);
  // Elements low..high-1 of an axis.
  Value* Slice(Value* x, int64_t axis, int64_t low, int64_t high);

  // Copies `node`, whose operands are all constants, into the recipe.
  Node* Copy(const Node& node);
  // The E4M3 codes of numbers (as DoubleToE4M3 gives them), as f64.
  Value* E4M3Codes(Value* x);
  // Packs each two numbers of a row, in 0..15, into a byte, the low bits first, as u8.
  Value* Int4Pairs(Value* codes);

  // Ends the recipe with `result`, rounded to the dtype of `data`. `data` holds the elements of the
  // constant, which are equal to that.
  MadeConstant Finish(Value* result, TensorData data);

 private:
  std::unique_ptr<Graph> program_;
  Builder builder_;
  std::vector<std::shared_ptr<Derivation>> sources_;
  std::vector<Value*> inputs_;  // by source
};

// A constant that a pass computed from the elements of `sources` in a way that no program records.
MadeConstant Frozen(TensorData data, ArrayRef<const Value*> sources);

// The derivation of a constant; where it has none yet, its elements are chosen.
std::shared_ptr<Derivation> DerivationOf(const Value* constant);

}  // namespace fusec
