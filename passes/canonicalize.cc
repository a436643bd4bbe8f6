#include "passes/canonicalize.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/ir/op_def.h"
#include "passes/graph_edit.h"
#include "passes/join_slices.h"
#include "passes/recipe.h"
#include "passes/simplify_arithmetic.h"
#include "passes/whole_numbers.h"

namespace fusec {

namespace {

// For a view that changes nothing: its operand. Otherwise null.
Value* SimplifyView(const Node& node) {
  Value* x = node.operand(0);
  if (!x || x->type != node.result()->type) return nullptr;
  switch (node.kind) {
    case OpKind::kIdentity:
    case OpKind::kReshape:
    case OpKind::kExpand:
    case OpKind::kCast:
    case OpKind::kConcat:  // other parts than the first are empty
      return x;
    case OpKind::kTranspose: {
      const auto& perm = node.Ints("perm");
      for (size_t i = 0; i < perm.size(); ++i) {
        if (perm[i] != static_cast<int64_t>(i)) return nullptr;
      }
      return x;
    }
    case OpKind::kSlice: {
      const auto& steps = node.Ints("steps");
      for (int64_t step : steps) {
        if (step != 1) return nullptr;
      }
      return x;  // the same shape with step 1 means the whole operand
    }
    case OpKind::kPad: {
      const auto is_zero = [](const Expr& pad) { return pad.IsConstant(0); };
      const auto& pads = node.Get<Exprs>("pads");
      return std::all_of(pads.begin(), pads.end(), is_zero) ? x : nullptr;
    }
    default:
      return nullptr;
  }
}

// reshape(reshape(x)) and transpose(transpose(x)) become one view.
Value* MergeViews(const Node& node, Builder& builder) {
  if (node.kind == OpKind::kReshape) {
    if (const Node* inner = ProducerOf(node.operand(0), OpKind::kReshape)) {
      return builder.Make(OpKind::kReshape, {inner->operand(0)}, node.attributes,
                          node.result()->name);
    }
  }
  if (node.kind == OpKind::kTranspose) {
    if (const Node* inner = ProducerOf(node.operand(0), OpKind::kTranspose)) {
      std::vector<int64_t> perm;
      for (const int64_t axis : node.Ints("perm")) perm.push_back(inner->Ints("perm")[axis]);
      return builder.Make(OpKind::kTranspose, {inner->operand(0)}, {{"perm", perm}},
                          node.result()->name);
    }
  }
  return nullptr;
}

bool SwapsLastTwo(const Node& transpose) {
  const auto& perm = transpose.Ints("perm");
  const size_t rank = perm.size();
  if (rank < 2) return false;
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return perm[rank - 2] == static_cast<int64_t>(rank) - 1 &&
         perm[rank - 1] == static_cast<int64_t>(rank) - 2;
}

// A transpose that only moves axes of one element as a reshape, which leaves the elements in place.
// A swap of the last two axes is left to the matmul that reads it.
Value* TransposeOfUnitAxes(const Node& node, Builder& builder) {
  if (node.kind != OpKind::kTranspose || SwapsLastTwo(node)) return nullptr;
  int64_t last = -1;
  for (const int64_t axis : node.Ints("perm")) {
    if (node.operand(0)->type.shape[axis].IsConstant(1)) continue;
    if (axis < last) return nullptr;
    last = axis;
  }
  return ReshapeTo(builder, node.operand(0), node.result()->type.shape, node.result()->name);
}

// Rewrites a product with one column as a sum over each row of elementwise products. One kernel
// computes it and reads the matrix once, together with the ops around it.
Value* SumOfProducts(const Node& node, Builder& builder) {
  constexpr int64_t kLongest = 8192;  // longer rows are split over thread blocks by the library
  const TensorType& a = node.operand(0)->type;
  const TensorType& b = node.operand(1)->type;
  const bool one_column =
      b.rank() == 2 && b.shape[node.Int("transpose_b") != 0 ? 0 : 1].IsConstant(1);
  const auto depth = a.shape.back().AsConstant();
  if (!one_column || !IsFloat(a.dtype) || node.Int("transpose_a") != 0 || !depth ||
      *depth > kLongest)
    return nullptr;
  Value* column = ReshapeTo(builder, node.operand(1), {a.shape.back()}, node.operand(1)->name);
  Value* products = builder.Make(OpKind::kMul, {node.operand(0), column}, {}, node.result()->name);
  const std::vector<int64_t> axes = {a.rank() - 1};
  return builder.Make(OpKind::kReduceSum, {products}, {{"axes", axes}, {"keepdims", int64_t{1}}},
                      node.result()->name);
}

Value* SimplifyMatMul(const Node& node, Builder& builder) {
  for (int side = 0; side < 2; ++side) {
    const Node* transpose = ProducerOf(node.operand(side), OpKind::kTranspose);
    if (!transpose || !SwapsLastTwo(*transpose)) continue;
    ValueList operands = node.operands;
    operands[side] = transpose->operand(0);
    Attributes attributes = node.attributes;
    const char* name = side == 0 ? "transpose_a" : "transpose_b";
    attributes[name] = int64_t{1} - node.Int(name);
    return builder.Make(OpKind::kMatMul, operands, attributes, node.result()->name);
  }
  if (Value* sum = SumOfProducts(node, builder)) return sum;
  // A sum with one term is that product.
  const bool swapped[2] = {node.Int("transpose_a") != 0, node.Int("transpose_b") != 0};
  const Shape& a = node.operand(0)->type.shape;
  if (!a[a.size() - (swapped[0] ? 2 : 1)].IsConstant(1)) return nullptr;
  Value* factors[2];
  for (int side = 0; side < 2; ++side) {
    Shape shape = node.operand(side)->type.shape;
    if (swapped[side]) std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    factors[side] = ReshapeTo(builder, node.operand(side), shape, node.operand(side)->name);
  }
  return builder.Make(OpKind::kMul, {factors[0], factors[1]}, {}, node.result()->name);
}

// The index counted from the front; nullopt if it is out of range, which the run reports.
std::optional<int64_t> FromFront(int64_t index, int64_t extent) {
  if (index < -extent || index >= extent) return std::nullopt;
  return index < 0 ? index + extent : index;
}

// Counts all indices that a constant holds from the front, as i64.
Value* FromFront(Recipe& recipe, const Value* indices, Value* extent) {
  Value* given = recipe.Cast(recipe.Use(indices), Dtype::kI64);
  Value* is_from_end = recipe.Make(OpKind::kLess, {given, recipe.Number(0, Dtype::kI64)});
  return recipe.Where(is_from_end, recipe.Add(given, extent), given);
}

// Constant 64-bit indices as 32-bit indices, counted from the front; null if any is out of range,
// which the run reports.
Value* NarrowIndices(const TensorData& indices, int64_t extent, Value* value, Builder& builder) {
  TensorData narrow(Dtype::kI32, indices.dims());
  for (int64_t i = 0; i < indices.element_count(); ++i) {
    const auto at = FromFront(indices.GetInt(i), extent);
    if (!at) return nullptr;
    narrow.SetInt(i, *at);
  }
  Recipe recipe;
  Value* from_front =
      FromFront(recipe, value, recipe.Number(static_cast<double>(extent), Dtype::kI64));
  Value* constant = AddConstant(builder, recipe.Finish(from_front, std::move(narrow)), value->name);
  std::swap(constant->name, value->name);  // keeps the model's name
  return constant;
}

// A gather at one constant index, or at constant indices that count, becomes a slice; other
// constant indices are stored in 32 bits.
Value* SimplifyGather(const Node& node, Builder& builder) {
  const TensorData* indices = Payload(node.operand(1));
  if (indices == nullptr) return nullptr;
  Value* x = node.operand(0);
  const int64_t axis = node.Int("axis"), count = indices->element_count();
  const auto extent = x->type.shape[axis].AsConstant();
  if (!extent) return nullptr;
  const std::optional<int64_t> start =
      count == 1 ? FromFront(indices->GetInt(0), *extent) : StartOfCount(*indices);
  if (start && *start >= 0 && *start + count <= *extent) {
    Value* slice = Sliced(builder, x, axis, *start, *start + count, node.result()->name);
    return ReshapeTo(builder, slice, node.result()->type.shape, node.result()->name);
  }
  if (count == 1 || indices->dtype() != Dtype::kI64 || *extent > INT32_MAX) return nullptr;
  Value* narrow = NarrowIndices(*indices, *extent, node.operand(1), builder);
  if (!narrow) return nullptr;
  return builder.Make(OpKind::kGather, {x, narrow}, {{"axis", axis}}, node.result()->name);
}

// A gather_nd at constant indices becomes a gather along its indexed axes merged into one axis.
Value* SimplifyGatherND(const Node& node, Builder& builder) {
  const TensorData* places = Payload(node.operand(1));
  Value* x = node.operand(0);
  if (places == nullptr || node.Int("batch_dims") != 0) return nullptr;
  const int64_t chosen = places->dims().back();
  const auto first_kept = x->type.shape.begin() + chosen;
  int64_t extent = 1;
  for (int64_t j = 0; j < chosen; ++j) {
    const auto size = x->type.shape[j].AsConstant();
    if (!size || *size > INT32_MAX / std::max<int64_t>(extent, 1)) return nullptr;
    extent *= *size;
  }
  TensorData flat(Dtype::kI32, {places->dims().begin(), places->dims().end() - 1});
  std::vector<int64_t> sizes(chosen), strides(chosen);
  for (int64_t j = chosen, stride = 1; j-- > 0; stride *= sizes[j]) {
    sizes[j] = *x->type.shape[j].AsConstant();
    strides[j] = stride;
  }
  for (int64_t i = 0; i < flat.element_count(); ++i) {
    int64_t place = 0;
    for (int64_t j = 0; j < chosen; ++j) {
      const auto at = FromFront(places->GetInt(i * chosen + j), sizes[j]);
      if (!at) return nullptr;
      place += *at * strides[j];
    }
    flat.SetInt(i, place);
  }
  Shape shape(first_kept, x->type.shape.end());
  shape.insert(shape.begin(), extent);
  Value* rows = ReshapeTo(builder, x, shape, x->name + "_flat");
  Recipe recipe;
  const auto literal = [&](ArrayRef<int64_t> numbers) {
    return recipe.Literal(TensorData::From(Dtype::kI64, {chosen}, numbers.vec()));
  };
  Value* from_front = FromFront(recipe, node.operand(1), literal(sizes));
  Value* sum = recipe.Reduce(OpKind::kReduceSum, recipe.Mul(from_front, literal(strides)),
                             node.operand(1)->type.rank() - 1, /*keepdims=*/false);
  Value* indices =
      AddConstant(builder, recipe.Finish(sum, std::move(flat)), node.operand(1)->name + "_flat");
  return builder.Make(OpKind::kGather, {rows, indices}, {{"axis", int64_t{0}}},
                      node.result()->name);
}

Value* Simplify(const Node& node, Builder& builder) {
  if (Value* simpler = SimplifyView(node)) return simpler;
  if (Value* simpler = MergeViews(node, builder)) return simpler;
  if (Value* simpler = TransposeOfUnitAxes(node, builder)) return simpler;
  if (node.kind == OpKind::kMatMul) return SimplifyMatMul(node, builder);
  if (node.kind == OpKind::kGather) return SimplifyGather(node, builder);
  if (node.kind == OpKind::kGatherND) return SimplifyGatherND(node, builder);
  if (node.kind == OpKind::kConcat) return JoinedSlices(node, builder);
  if (node.kind == OpKind::kCast) return SkipIntegers(node, builder);
  return SimplifyArithmetic(node, builder);
}

}  // namespace

Result<bool> Canonicalize(Graph& graph, const PassOptions&, PassReport&) {
  const bool changed = ReplaceResults(graph, [](const Node& node, Builder& builder) {
    const size_t before = builder.insert_at();
    Value* simpler = Simplify(node, builder);
    // A new value takes the name of the old one, so that kernels use the model's names.
    if (simpler && builder.insert_at() > before) std::swap(simpler->name, node.result()->name);
    return simpler;
  });
  if (!changed) return false;
  // The next run visits the new nodes.
  FUSEC_TRY(Canonicalize(graph, {}, *std::make_unique<PassReport>()));
  return true;
}

}  // namespace fusec
