#include "passes/recipe.h"

#include <algorithm>
#include <numeric>

#include "compiler/support/check.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

std::vector<int64_t> DimsOf(const Value* value) { return *StaticShape(value->type.shape); }

Exprs AsExprs(ArrayRef<int64_t> dims) { return Exprs(dims.begin(), dims.end()); }

}  // namespace

std::shared_ptr<Derivation> DerivationOf(const Value* constant) {
  Node& node = *constant->producer;
  if (!node.derivation) {
    node.derivation = std::make_shared<Derivation>();
    node.derivation->name = constant->name;
    node.derivation->type = constant->type;
    node.derivation->hash = node.constant_hash;
    node.derivation->data = node.constant;
  }
  return node.derivation;
}

Value* AddConstant(Builder& builder, MadeConstant made, const std::string& name) {
  Value* constant = builder.Constant(std::move(made.data), name);
  made.derivation->name = constant->name;
  made.derivation->type = constant->type;
  constant->producer->derivation = std::move(made.derivation);
  return constant;
}

MadeConstant Frozen(TensorData data, ArrayRef<const Value*> sources) {
  auto derivation = std::make_shared<Derivation>();
  for (const Value* source : sources) derivation->sources.push_back(DerivationOf(source));
  derivation->hash = data.Hash();
  derivation->data = data;
  return {std::move(data), std::move(derivation)};
}

Recipe::Recipe() : program_(std::make_unique<Graph>()), builder_(*program_) {
  program_->name = "recipe";
}

Value* Recipe::Use(const Value* constant) {
  const auto source = DerivationOf(constant);
  const auto known = std::find(sources_.begin(), sources_.end(), source);
  if (known != sources_.end()) return inputs_[known - sources_.begin()];
  sources_.push_back(source);
  inputs_.push_back(program_->AddInput(constant->name, constant->type));
  return inputs_.back();
}

Value* Recipe::MatMul(Value* a, Value* b, bool transpose_a, bool transpose_b) {
  return Make(OpKind::kMatMul, {a, b},
              {{"transpose_a", int64_t{transpose_a}}, {"transpose_b", int64_t{transpose_b}}});
}

Value* Recipe::Reduce(OpKind kind, Value* x, int64_t axis, bool keepdims) {
  return Make(kind, {x}, {{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{keepdims}}});
}

Value* Recipe::Gather(Value* x, Value* indices, int64_t axis) {
  return Make(OpKind::kGather, {x, indices}, {{"axis", axis}});
}

Value* Recipe::Cast(Value* x, Dtype dtype) {
  return x->type.dtype == dtype ? x : Make(OpKind::kCast, {x}, {{"to", dtype}});
}

Value* Recipe::Reshape(Value* x, ArrayRef<int64_t> dims) {
  if (DimsOf(x) == dims.vec()) return x;
  return Make(OpKind::kReshape, {x}, {{"shape", AsExprs(dims)}});
}

Value* Recipe::Expand(Value* x, ArrayRef<int64_t> dims) {
  if (DimsOf(x) == dims.vec()) return x;
  return Make(OpKind::kExpand, {x}, {{"shape", AsExprs(dims)}});
}

Value* Recipe::Turned(Value* matrix, bool turn) {
  return turn ? Make(OpKind::kTranspose, {matrix}, {{"perm", std::vector<int64_t>{1, 0}}}) : matrix;
}

Value* Recipe::Padded(Value* x, int64_t axis, int64_t missing) {
  if (missing == 0) return x;
  const auto rank = static_cast<size_t>(x->type.rank());
  Exprs pads(2 * rank, 0);
  pads[rank + static_cast<size_t>(axis)] = missing;
  return Make(OpKind::kPad, {x, Number(0, x->type.dtype)},
              {{"pads", pads}, {"mode", std::string("constant")}});
}

Value* Recipe::Concat(ArrayRef<Value*> parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : Make(OpKind::kConcat, parts, {{"axis", axis}});
}

Value* Recipe::Slice(Value* x, int64_t axis, int64_t low, int64_t high) {
  return Sliced(builder_, x, axis, low, high);
}

Node* Recipe::Copy(const Node& node) {
  ValueList operands;
  for (const Value* operand : node.operands) operands.push_back(operand ? Use(operand) : nullptr);
  auto copy = builder_.Add(node.kind, operands, node.attributes);
  FUSEC_CHECK(copy.has_value(), PrintNode(node) + ": " + copy.error().message);
  return *copy;
}

// With e the exponent of a number x, at least -6, the code is 8 (e + 6) + round(x / 2^(e - 3)). If
// the logarithm is rounded up to the next power of two, this formula gives the same code with the
// larger e.
Value* Recipe::E4M3Codes(Value* x) {
  Value* zero = Number(0);
  Value* magnitude = Make(OpKind::kMin, {Make(OpKind::kAbs, {x}), Number(448)});
  Value* log = Div(Make(OpKind::kLog, {magnitude}), Make(OpKind::kLog, {Number(2)}));
  Value* exponent = Make(OpKind::kMax, {Make(OpKind::kFloor, {log}), Number(-6)});
  Value* unit = Make(OpKind::kPow, {Number(2), Sub(exponent, Number(3))});
  Value* digits = Make(OpKind::kRound, {Div(magnitude, unit)});
  Value* code = Add(Mul(Add(exponent, Number(6)), Number(8)), digits);
  Value* is_negative = Make(OpKind::kLess, {Make(OpKind::kReciprocal, {x}), zero});  // or is -0
  return Add(code, Where(is_negative, Number(128), zero));
}

Value* Recipe::Int4Pairs(Value* codes) {
  const std::vector<int64_t> dims = DimsOf(codes);
  codes = Padded(Cast(codes, Dtype::kI32), 1, dims[1] % 2);
  codes = Reshape(codes, {dims[0], (dims[1] + 1) / 2, 2});
  Value* places = Literal(TensorData::From<int64_t>(Dtype::kI32, {2}, {1, 16}));
  return Cast(Reduce(OpKind::kReduceSum, Mul(codes, places), 2, /*keepdims=*/false), Dtype::kU8);
}

MadeConstant Recipe::Finish(Value* result, TensorData data) {
  result = Cast(result, data.dtype());
  FUSEC_CHECK(DimsOf(result) == data.dims(), Print(*program_));
  program_->outputs = {result};
  auto derivation = std::make_shared<Derivation>();
  derivation->program = std::move(program_);
  derivation->sources = std::move(sources_);
  return {std::move(data), std::move(derivation)};
}

}  // namespace fusec
