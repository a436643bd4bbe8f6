// Ops that move elements, expanded to views and gathers: depth_to_space, space_to_depth,
// reverse_sequence, nonzero, compress, and scatter, the old name of scatter_elements.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/ir/op_def.h"
#include "compiler/ir/symbolic_contents.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/places.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

// The attribute blocksize; an error unless x has the shape [N, C, H, W].
Result<int64_t> BlockSize(const ImportContext& context) {
  const TensorType& x = context.input(0)->type;
  const int64_t size = context.Int("blocksize", 0);
  if (x.rank() != 4 || size < 1) {
    return context.Fail(
        fmt::format("x is {} and blocksize {}, expected rank 4 and 1 or more", x.ToString(), size));
  }
  return size;
}

// If x is a mask expanded along its trailing axes, sets `mask` to the operand of the expansion and
// returns the number of leading axes that are not repeated: 1 for a mask [batch, 1, 1] expanded to
// [batch, seq, 8]. Otherwise returns the rank of x.
size_t AxesOfMask(const Value* x, Value*& mask) {
  const size_t rank = x->type.shape.size();
  const Node* expand = x->producer;
  if (expand == nullptr || expand->kind != OpKind::kExpand) return rank;
  const Shape& small = expand->operand(0)->type.shape;
  if (small.size() != rank) return rank;
  size_t axes = 0;
  while (axes < rank && small[axes] == x->type.shape[axes]) ++axes;
  for (size_t i = axes; i < rank; ++i) {
    if (!small[i].IsConstant(1)) return rank;
  }
  mask = expand->operand(0);
  return axes;
}

// The first row of x, [1, ...], if all rows of x are known to be equal: x is computed element by
// element from tensors that were expanded along the first axis. Otherwise null.
Value* RowOf(const Value* x, Formula& f, int depth = 0) {
  constexpr int kDeepest = 50;
  const Node* node = x->producer;
  if (node == nullptr || depth == kDeepest) return nullptr;
  Shape shape = x->type.shape;
  const Expr rows = std::exchange(shape[0], Expr(1));
  if (node->kind == OpKind::kExpand) {
    Value* small = node->operand(0);
    const bool repeats_rows =
        small->type.rank() < static_cast<int>(shape.size()) || small->type.shape[0].IsConstant(1);
    return repeats_rows ? f.Expand(small, shape) : nullptr;
  }
  if (GetOpDef(node->kind).op_class != OpClass::kPointwise || node->operands.empty())
    return nullptr;
  ValueList operands;
  for (Value* operand : node->operands) {
    if (operand == nullptr) return nullptr;
    const bool has_rows =
        operand->type.rank() == static_cast<int>(shape.size()) && operand->type.shape[0] == rows;
    operands.push_back(has_rows ? RowOf(operand, f, depth + 1) : operand);
    if (operands.back() == nullptr) return nullptr;
  }
  return f.Make(node->kind, operands, node->attributes);
}

// PositionsOfData of a mask whose rows are equal and constant, such as boolean_mask writes it for
// the pairs of DLRM: as many in each row.
Value* PositionsOfEqualRows(ImportContext& context, const Value* x, Formula& f) {
  while (x->producer != nullptr && x->producer->kind == OpKind::kReshape)
    x = x->producer->operand(0);
  const Shape& shape = x->type.shape;
  if (shape.size() < 2 || shape[0].AsConstant()) return nullptr;
  const auto columns = Product(Shape(shape.begin() + 1, shape.end())).AsConstant();
  Value* row = columns ? RowOf(x, f) : nullptr;
  const std::optional<TensorData> known = row ? context.TryConstant(row) : std::nullopt;
  if (!known) return nullptr;
  std::vector<double> found;
  for (int64_t i = 0; i < known->element_count(); ++i) {
    const bool is_float = IsFloat(known->dtype());
    if (is_float ? known->GetDouble(i) != 0 : known->GetInt(i) != 0)
      found.push_back(static_cast<double>(i));
  }
  const auto count = static_cast<int64_t>(found.size());
  if (count == 0) return nullptr;
  Value* begins = f.Mul(f.Reshape(f.Iota(0, shape[0]), {shape[0], 1}),
                        f.Number(static_cast<double>(*columns), Dtype::kI64));
  return f.Reshape(f.Add(begins, f.Tensor(Dtype::kI64, {1, count}, found)), {shape[0] * count});
}

}  // namespace

Value* SizeOf(Formula& f, const Expr& size) {
  return f.Make(OpKind::kSymbolicDims, {}, {{"values", Exprs{size}}, {"scalar", int64_t{1}}});
}

// Padding elements are 0. The k-th nonzero element is the one at which the running count of nonzero
// elements reaches k.
Value* PositionsOfData(ImportContext& context, Value* x, Formula& f) {
  const Shape& shape = x->type.shape;
  if (Product(shape).IsConstant(0)) return f.Iota(0, 0);
  if (Value* positions = PositionsOfEqualRows(context, x, f)) return positions;
  Value* mask = x;
  const size_t axes = AxesOfMask(x, mask);
  const Expr repeats = Product(Shape(shape.begin() + axes, shape.end()));
  const Expr size = Product(Shape(shape.begin(), shape.begin() + axes));
  Value* zero = f.Number(0, Dtype::kI64);
  Value* is_found = f.Reshape(f.Cast(mask, Dtype::kBool), {size});
  Value* found = f.Cast(is_found, Dtype::kI64);
  const Expr count = context.RunTimeCount(
      f.Reduce(OpKind::kReduceSum, found, {0}, /*keepdims=*/true, "count"), 0, size);
  Value* found_so_far =
      f.Make(OpKind::kCumSum, {found},
             {{"axis", int64_t{0}}, {"exclusive", int64_t{0}}, {"reverse", int64_t{0}}});
  Value* place = f.Make(OpKind::kMax, {f.Sub(found_so_far, f.Number(1, Dtype::kI64)), zero});
  Value* number = f.Where(is_found, f.Iota(0, size), zero);
  Value* positions = f.Make(OpKind::kScatterElements, {f.Expand(zero, {size}), place, number},
                            {{"axis", int64_t{0}}, {"reduction", std::string("max")}}, "positions");
  positions = f.Gather(positions, f.Iota(0, count));
  if (repeats.IsConstant(1)) return positions;
  positions = f.Mul(f.Reshape(positions, {count, 1}), SizeOf(f, repeats));
  return f.Reshape(f.Add(positions, f.Reshape(f.Iota(0, repeats), {1, repeats})),
                   {count * repeats});
}

namespace {

// NonZero of a tensor that is run-time data. The result has as many columns as x has elements; a
// run-time count says how many of them are valid.
Result<void> PlacesOfData(ImportContext& context) {
  const Shape shape = context.input(0)->type.shape;
  Formula f(context);
  Value* positions = PositionsOfData(context, context.input(0), f);
  ValueList rows;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Expr below = Product(Shape(shape.begin() + i + 1, shape.end()));
    Value* coordinate = positions;
    if (!below.IsConstant(1)) coordinate = f.Div(coordinate, SizeOf(f, below));
    if (i > 0) {
      coordinate = f.Make(OpKind::kMod, {coordinate, SizeOf(f, shape[i])}, {{"fmod", int64_t{0}}});
    }
    rows.push_back(f.Reshape(coordinate, {1, positions->type.shape[0]}));
  }
  return f.Finish({f.Concat(rows, 0)});
}

}  // namespace

// [N, b*b*C, H, W] -> [N, C, b*H, b*W]; the position within the block is the slower part of the
// channel index (DCR) or the faster one (CRD).
Result<void> ImportDepthToSpace(ImportContext& context) {
  FUSEC_ASSIGN(const int64_t b, BlockSize(context));
  const Shape x = context.input(0)->type.shape;
  const Expr channels = FloorDiv(x[1], b * b, context.ranges());
  Formula f(context);
  Value* apart = nullptr;
  if (context.String("mode", "DCR") == "CRD") {
    apart = f.Reshape(context.input(0), {x[0], channels, b, b, x[2], x[3]});
    apart = f.Transpose(apart, {0, 1, 4, 2, 5, 3});
  } else {
    apart = f.Reshape(context.input(0), {x[0], b, b, channels, x[2], x[3]});
    apart = f.Transpose(apart, {0, 3, 4, 1, 5, 2});
  }
  return f.Finish({f.Reshape(apart, {x[0], channels, x[2] * b, x[3] * b})});
}

Result<void> ImportSpaceToDepth(ImportContext& context) {
  FUSEC_ASSIGN(const int64_t b, BlockSize(context));
  const Shape x = context.input(0)->type.shape;
  const Expr height = FloorDiv(x[2], b, context.ranges()),
             width = FloorDiv(x[3], b, context.ranges());
  Formula f(context);
  const bool is_faster = context.String("mode", "DCR") == "CRD";  // as for DepthToSpace
  Value* apart = f.Reshape(context.input(0), {x[0], x[1], height, b, width, b});
  apart = f.Transpose(apart, is_faster ? std::vector<int64_t>{0, 1, 3, 5, 2, 4}
                                       : std::vector<int64_t>{0, 3, 5, 1, 2, 4});
  return f.Finish({f.Reshape(apart, {x[0], x[1] * (b * b), height, width})});
}

// Whether all elements of `lengths` are known to be `size`, as where an exporter reverses a whole
// axis: it expands the axis's size to a length for each sequence.
bool AreAll(const Value* lengths, const Expr& size, const Ranges& ranges) {
  while (lengths->producer != nullptr && !lengths->type.ElementCount().IsConstant(1) &&
         GetOpDef(lengths->producer->kind).op_class == OpClass::kView &&
         lengths->producer->operands.size() == 1)
    lengths = lengths->producer->operand(0);
  const auto contents = SymbolicContents(lengths, ranges);
  return contents && !contents->empty() &&
         std::all_of(contents->begin(), contents->end(),
                     [&](const Expr& length) { return length == size; });
}

// Reverses the first lengths[n] elements of sequence n and keeps the others.
Result<void> ImportReverseSequence(ImportContext& context) {
  Value* x = context.input(0);
  Value* lengths = context.input(1);
  const Shape shape = x->type.shape;
  const int64_t time = context.Int("time_axis", 0), batch = context.Int("batch_axis", 1);
  if (x->type.rank() < 2 || time + batch != 1 || time * batch != 0 ||
      lengths->type.shape != Shape{shape[batch]}) {
    return context.Fail(fmt::format(
        "x is {}, sequence_lens {}, time_axis {} and batch_axis {}, expected axes 0 and 1 and a "
        "length for each sequence",
        x->type.ToString(), lengths->type.ToString(), time, batch));
  }
  Formula f(context);
  if (AreAll(lengths, shape[time], context.ranges())) {
    const int axis = static_cast<int>(time);
    return f.Finish({f.Slice(x, axis, shape[time] - 1, shape[time], -1)});
  }
  Value* step = f.AlongAxis(f.Iota(0, shape[time]), time, 2);
  Value* length = f.AlongAxis(f.Cast(lengths, Dtype::kI64), batch, 2);
  Value* from_end = f.Sub(f.Sub(length, f.Number(1, Dtype::kI64)), step);
  Value* source = f.Where(f.Make(OpKind::kLess, {step, length}), from_end, step);
  Shape spread(shape.size(), Expr(1));
  spread[0] = shape[0];
  spread[1] = shape[1];
  source = f.Expand(f.Reshape(source, spread), shape);
  return f.Finish({f.Make(OpKind::kGatherElements, {x, source}, {{"axis", time}})});
}

// The elements of x along `axis`, or of x as a vector, for which the condition holds.
Result<void> ImportCompress(ImportContext& context) {
  Value* x = context.input(0);
  Value* condition = context.input(1);
  Formula f(context);
  int64_t axis = 0;
  if (context.Has("axis")) {
    FUSEC_ASSIGN(axis, ImportAxis(context, context.Int("axis", 0), x->type.rank()));
  } else {
    x = f.Reshape(x, {x->type.ElementCount()});
  }
  const Expr& size = x->type.shape[axis];
  if (condition->type.rank() != 1 || context.ranges().ProvenLess(size, condition->type.shape[0])) {
    return context.Fail(fmt::format("the condition is {}, expected rank 1 and at most {} elements",
                                    condition->type.ToString(), size.ToString()));
  }
  const std::optional<TensorData> known = context.TryConstant(condition);
  if (!known) return f.Finish({f.Gather(x, PositionsOfData(context, condition, f), axis)});
  std::vector<double> positions;
  for (int64_t i = 0; i < known->element_count(); ++i) {
    if (known->GetInt(i) != 0) positions.push_back(static_cast<double>(i));
  }
  const auto count = static_cast<int64_t>(positions.size());
  return f.Finish({f.Gather(x, f.Tensor(Dtype::kI64, {count}, positions), axis)});
}

// Scatter is the name of ScatterElements before opset 11.
Result<void> ImportScatter(ImportContext& context) {
  Value* data = context.input(0);
  FUSEC_ASSIGN(const int64_t axis, ImportAxis(context, context.Int("axis", 0), data->type.rank()));
  Formula f(context);
  return f.Finish({f.Make(OpKind::kScatterElements, {data, context.input(1), context.input(2)},
                          {{"axis", axis}, {"reduction", std::string("none")}})});
}

// The coordinates of the nonzero elements, one row per axis. Their number is known at compile time
// for a constant, and as an expression for a constant that is expanded along leading axes of
// symbolic size, whose coordinates repeat.
Result<void> ImportNonZero(ImportContext& context) {
  Value* x = context.input(0);
  const Shape shape = x->type.shape;
  // The constant part of an expanded tensor, and how many leading axes it is repeated along.
  const Node* expand = x->producer;
  size_t repeated = 0;
  Value* inner = x;
  if (!context.TryConstant(x) && expand != nullptr && expand->kind == OpKind::kExpand) {
    inner = expand->operand(0);
    const Shape& small = inner->type.shape;
    while (repeated < shape.size() && !shape[repeated].AsConstant()) ++repeated;
    const size_t offset = shape.size() - small.size();
    for (size_t i = offset; i < shape.size(); ++i) {
      if (i < repeated && !small[i - offset].IsConstant(1)) repeated = 0;
    }
  }
  const std::optional<TensorData> known = context.TryConstant(inner);
  const auto rest = StaticShape(Shape(shape.begin() + repeated, shape.end()));
  if (shape.empty()) return context.Fail("x is a scalar, expected rank 1 or more");
  if (!known || !rest) return PlacesOfData(context);

  // Coordinates of the nonzero elements within the part that is not repeated.
  std::vector<std::vector<double>> places(rest->size());
  const ReferenceTensor values = ReferenceTensor::FromData(*known);
  ForEachIndex(*rest, [&](ArrayRef<int64_t> index) {
    std::vector<int64_t> at(values.dims.size());
    for (size_t i = 0; i < at.size(); ++i) {  // axes are aligned at the last one
      const size_t back = at.size() - i;
      at[i] = back <= index.size() && values.dims[i] != 1 ? index[index.size() - back] : 0;
    }
    if (values.Real(values.Position(at)) == 0) return;
    for (size_t i = 0; i < index.size(); ++i) places[i].push_back(static_cast<double>(index[i]));
  });
  Formula f(context);
  const auto count = static_cast<int64_t>(places.empty() ? 0 : places[0].size());
  const Shape leading(shape.begin(), shape.begin() + repeated);
  const Expr repeats = Product(leading);
  ValueList rows;
  // Element k of the result is place k % count of repetition k / count.
  Value* number = repeated == 0 ? nullptr : f.Reshape(f.Iota(0, repeats), {repeats, 1});
  Expr below = repeats;
  for (size_t i = 0; i < repeated; ++i) {
    below = FloorDiv(below, leading[i], context.ranges());
    Value* coordinate = number;
    if (i > 0 || repeated > 1) {
      coordinate = f.Div(coordinate, SizeOf(f, below));
      coordinate =
          f.Make(OpKind::kMod, {coordinate, SizeOf(f, leading[i])}, {{"fmod", int64_t{0}}});
    }
    rows.push_back(f.Reshape(f.Expand(coordinate, {repeats, count}), {1, repeats * count}));
  }
  for (const std::vector<double>& row : places) {
    Value* coordinates = f.Tensor(Dtype::kI64, {1, count}, row);
    rows.push_back(f.Reshape(f.Expand(coordinates, {repeats, count}), {1, repeats * count}));
  }
  return f.Finish({f.Concat(rows, 0)});
}

}  // namespace fusec
