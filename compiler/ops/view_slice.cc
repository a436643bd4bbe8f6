// Views that read a part of the operand, or read elements several times: slice, expand, tile.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/ops/define_op.h"
#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/places.h"
#include "compiler/ops/run_time_bound.h"
#include "compiler/ops/slice_bounds.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

// Exporters write "to the end" as INT64_MAX or INT32_MAX (and their negatives for a step
// backwards); no dim reaches that far.
constexpr int64_t kFar = std::numeric_limits<int32_t>::max();

// A start or end as ONNX defines it: negative values count from the end of `dim`, then the result
// is clamped to [low, high].
Result<Expr> ClampedBound(const ImportContext& context, const std::string& what, Expr bound,
                          const Expr& dim, const Expr& low, const Expr& high) {
  const Ranges& ranges = context.ranges();
  if (const std::optional<int64_t> number = bound.AsConstant()) {
    if (*number >= kFar || *number >= ranges.IntervalOf(dim).high) return high;
    if (*number <= -kFar) return low;
    if (*number < 0) bound = bound + dim;
  } else if (ranges.ProvenNonNegative(-bound - 1)) {
    bound = bound + dim;
  } else if (!ranges.ProvenNonNegative(bound)) {
    return context.Fail(fmt::format("{} is {}, which may be negative or not depending on the input",
                                    what, bound.ToString()));
  }
  return Max(Min(bound, high, ranges), low, ranges);
}

struct AxisSlice {
  Expr start;
  Expr length;
};

// start..end by `step` along an axis of `dim` elements. For a positive step the bounds lie in [0,
// dim]; for a negative step the start lies in [0, dim - 1] (or is -1 if there are no elements) and
// the end in [-1, dim - 1]. length = max(0, ceil((end - start) / step))
Result<AxisSlice> SliceOfAxis(const ImportContext& context, const Expr& start, const Expr& end,
                              int64_t step, const Expr& dim) {
  const Ranges& ranges = context.ranges();
  if (step == 0) return context.Fail("steps has a 0, expected any other value");
  if (step > 0) {
    FUSEC_ASSIGN(Expr first, ClampedBound(context, "starts", start, dim, 0, dim));
    FUSEC_ASSIGN(const Expr last, ClampedBound(context, "ends", end, dim, 0, dim));
    Expr length = Max(CeilDiv(last - first, step, ranges), 0, ranges);
    return AxisSlice{std::move(first), std::move(length)};
  }
  const Expr lowest = Min(dim - 1, 0, ranges);
  FUSEC_ASSIGN(Expr first, ClampedBound(context, "starts", start, dim, lowest, dim - 1));
  FUSEC_ASSIGN(const Expr last, ClampedBound(context, "ends", end, dim, -1, dim - 1));
  const int64_t stride = -std::max(step, -std::numeric_limits<int64_t>::max());
  Expr length = Max(CeilDiv(first - last, stride, ranges), 0, ranges);
  return AxisSlice{std::move(first), std::move(length)};
}

struct WholeSlice {
  explicit WholeSlice(ShapeRef shape)
      : starts(shape.size(), Expr(0)), steps(shape.size(), 1), shape(shape) {}
  Attributes ToAttributes() const {
    return {{"starts", starts}, {"steps", steps}, {"shape", shape}};
  }
  bool IsWhole(ShapeRef all) const {
    return shape == Shape(all) &&
           std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step == 1; });
  }
  Exprs starts;
  std::vector<int64_t> steps;
  Shape shape;
};

// Starts of a Slice: an attribute before opset 10, an input in later opsets.
Result<std::vector<SliceStart>> SliceStarts(const ImportContext& context) {
  std::vector<SliceStart> starts;
  if (context.Has("starts")) {
    for (const int64_t start : context.Ints("starts")) starts.push_back({Expr(start)});
    return starts;
  }
  if (HasInput(context, 1)) {
    if (auto apart = StartsApart(context.input(1), context)) return *std::move(apart);
  }
  FUSEC_ASSIGN(const Exprs known, context.SymbolicInts(1, "starts"));
  for (const Expr& start : known) starts.push_back({start});
  return starts;
}

// Its ends, likewise. Ends that are run-time data are known if they are beyond every axis.
Result<Exprs> SliceEnds(const ImportContext& context, int data_rank) {
  if (context.Has("ends")) {
    const std::vector<int64_t> ends = context.Ints("ends");
    return Exprs(ends.begin(), ends.end());
  }
  Result<Exprs> known = context.SymbolicInts(2, "ends");
  if (known || !HasInput(context, 2)) return known;
  const Shape& shape = context.input(2)->type.shape;
  const auto count = shape.size() == 1 ? shape[0].AsConstant() : std::nullopt;
  if (count && *count <= data_rank && ReachesEveryEnd(context.input(2), context))
    return Exprs(*count, Expr(kFar));
  return known;
}

// Whether a Slice is along one axis, with step 1, and its start or end is run-time data.
bool IsCutByData(const ImportContext& context) {
  if (context.Has("starts") || context.Has("ends")) return false;
  for (const int i : {1, 2}) {
    if (!HasInput(context, i) || context.input(i)->type.shape != Shape{Expr(1)}) return false;
  }
  if (context.SymbolicInts(1, "starts") && context.SymbolicInts(2, "ends")) return false;
  if (!HasInput(context, 4)) return true;
  const auto steps = context.ConstantInts(4, "steps");
  return steps && *steps == std::vector<int64_t>{1};
}

// Imports such a Slice: element i of the result is element start + i. Its length is a run-time
// count.
Result<void> CutByData(ImportContext& context) {
  Value* data = context.input(0);
  std::vector<int64_t> axes = {0};
  if (HasInput(context, 3)) {
    FUSEC_ASSIGN(axes, context.ConstantInts(3, "axes"));
  }
  if (axes.size() != 1)
    return context.Fail(fmt::format("axes has {} values, expected 1", axes.size()));
  FUSEC_ASSIGN(const int64_t axis, ImportAxis(context, axes[0], data->type.rank()));
  const Expr& dim = data->type.shape[axis];
  Formula f(context);
  Value* zero = f.Number(0, Dtype::kI64);
  Value* rows = SizeOf(f, dim);
  const auto bound = [&](int input) {  // as ClampedBound does
    Value* place = f.FromStart(f.Reshape(context.input(input), {}), rows);
    return f.Make(OpKind::kMax, {f.Make(OpKind::kMin, {place, rows}), zero});
  };
  Value* start = bound(1);
  Value* length = f.Make(OpKind::kMax, {f.Sub(bound(2), start), zero}, {}, "length");
  Value* place = f.Iota(0, context.RunTimeCount(f.Reshape(length, {1}), 0, dim));
  Value* source = f.Where(f.Make(OpKind::kLess, {place, length}), f.Add(place, start), zero);
  return f.Finish({f.Gather(data, source, axis)});
}

// `data` at the element `start` of an axis, whose size becomes 1. The run fails if there is none.
Value* ElementByData(Formula& f, Value* data, Value* start, int64_t axis) {
  Shape shape = data->type.shape;
  Value* place = f.FromStart(f.Reshape(start, {}), SizeOf(f, shape[axis]));
  shape[axis] = 1;
  return f.Reshape(f.GatherOrFail(data, place, axis), shape);
}

Result<void> ImportSlice(ImportContext& context) {
  if (IsCutByData(context)) return CutByData(context);
  Value* data = context.input(0);
  FUSEC_ASSIGN(const std::vector<SliceStart> starts, SliceStarts(context));
  FUSEC_ASSIGN(const Exprs ends, SliceEnds(context, data->type.rank()));
  std::vector<int64_t> axes, steps(starts.size(), 1);
  if (context.Has("axes")) {
    axes = context.Ints("axes");
  } else if (HasInput(context, 3)) {
    FUSEC_ASSIGN(axes, context.ConstantInts(3, "axes"));
  } else {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (HasInput(context, 4)) {
    FUSEC_ASSIGN(steps, context.ConstantInts(4, "steps"));
  }
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return context.Fail(fmt::format(
        "starts, ends, axes and steps have {}, {}, {} and {} values, expected equally many",
        starts.size(), ends.size(), axes.size(), steps.size()));
  }
  WholeSlice whole(data->type.shape);
  std::vector<bool> seen(data->type.shape.size());
  std::vector<std::pair<int64_t, Value*>> elements;  // axis and place
  for (size_t i = 0; i < axes.size(); ++i) {
    FUSEC_ASSIGN(const int64_t axis, ImportAxis(context, axes[i], data->type.rank()));
    if (seen[axis]) return context.Fail(fmt::format("axes names axis {} twice", axis));
    seen[axis] = true;
    if (!starts[i].known && steps[i] >= kOneElementStep &&
        ends[i].AsConstant() >= kOneElementStep) {
      elements.emplace_back(axis, starts[i].data);
      continue;
    }
    // Fails if a start is run-time data.
    FUSEC_ASSIGN(const Exprs known,
                 starts[i].known ? Exprs{*starts[i].known} : context.SymbolicInts(1, "starts"));
    FUSEC_ASSIGN(AxisSlice part,
                 SliceOfAxis(context, known[0], ends[i], steps[i], data->type.shape[axis]));
    whole.starts[axis] = std::move(part.start);
    whole.shape[axis] = std::move(part.length);
    whole.steps[axis] = steps[i];
  }
  if (elements.empty()) return context.AddNode(OpKind::kSlice, {data}, whole.ToAttributes());
  if (!whole.IsWhole(data->type.shape)) {
    FUSEC_ASSIGN(data, AddView(context, OpKind::kSlice, {data}, whole.ToAttributes()));
  }
  Formula f(context);
  for (const auto& [axis, place] : elements) data = ElementByData(f, data, place, axis);
  return f.Finish({data});
}

// The lengths of a Split's parts: given, or equal (with `num_outputs` of opset 18 the last part may
// be smaller).
Result<Exprs> SplitLengths(const ImportContext& context, const Expr& dim) {
  const Ranges& ranges = context.ranges();
  Exprs lengths;
  if (context.Has("split")) {
    for (int64_t length : context.Ints("split")) lengths.push_back(length);
  } else if (HasInput(context, 1)) {
    FUSEC_ASSIGN(lengths, context.SymbolicInts(1, "split"));
  } else {
    const int64_t count = context.Int("num_outputs", context.output_count());
    if (count <= 0 || count != context.output_count()) {
      return context.Fail(fmt::format("num_outputs is {}, but there are {} outputs", count,
                                      context.output_count()));
    }
    const Expr length = CeilDiv(dim, count, ranges);
    Expr left = dim;
    for (int64_t i = 0; i + 1 < count; ++i) {
      lengths.push_back(Min(length, left, ranges));
      left = left - lengths.back();
    }
    lengths.push_back(left);
    if (!context.Has("num_outputs") && !ProvenEqual(left, length, ranges)) {
      return DoesNotDivide(
          fmt::format("{} elements do not divide into {} equal parts", dim.ToString(), count), dim,
          count, ranges);
    }
  }
  Expr sum;
  for (const Expr& length : lengths) sum = sum + length;
  if (!ProvenEqual(sum, dim, ranges)) {
    return SizesDiffer(
        fmt::format("split adds up to {}, expected {}", sum.ToString(), dim.ToString()), sum, dim);
  }
  if (static_cast<int>(lengths.size()) < context.output_count()) {
    return context.Fail(fmt::format("split has {} values, but there are {} outputs", lengths.size(),
                                    context.output_count()));
  }
  return lengths;
}

// A Split whose lengths are run-time data, as those of a jagged tensor: element i of a part is
// element (sum of the lengths before) + i. If a length is negative, or the lengths do not add up,
// all indices are out of range, which fails the run.
Result<void> SplitByData(ImportContext& context, int64_t axis) {
  Value* data = context.input(0);
  const Expr& dim = data->type.shape[axis];
  if (context.input(1)->type.shape != Shape{Expr(context.output_count())}) {
    return context.Fail(fmt::format("split is {}, but there are {} outputs",
                                    context.input(1)->type.ToString(), context.output_count()));
  }
  Formula f(context);
  Value* lengths = f.Cast(context.input(1), Dtype::kI64);
  Value* zero = f.Number(0, Dtype::kI64);
  Value* rows = SizeOf(f, dim);
  Value* start = zero;
  ValueList parts;
  for (int i = 0; i < context.output_count(); ++i) {
    Value* length = f.Reshape(f.Slice(lengths, 0, i, 1), {});
    Value* end = f.Add(start, length);
    Value* place = f.Iota(0, context.RunTimeCount(context.input(1), i, dim));
    Value* inside = f.Make(OpKind::kLess, {place, length});
    Value* source = f.Where(inside, f.Add(place, start), zero);
    Value* is_wrong = f.Make(OpKind::kLess, {length, zero});
    if (i + 1 == context.output_count()) {
      Value* adds_up = f.Make(OpKind::kEqual, {end, rows});
      is_wrong = f.Make(OpKind::kOr, {is_wrong, f.Unary(OpKind::kNot, adds_up)});
    }
    // Error messages mention this name: the indices are out of range if the lengths are wrong.
    Value* places =
        f.Make(OpKind::kWhere, {is_wrong, rows, source}, {}, "places_by_" + context.input(1)->name);
    parts.push_back(f.GatherOrFail(data, places, axis));
    start = end;
  }
  return f.Finish(parts);
}

Result<void> ImportSplit(ImportContext& context) {
  Value* data = context.input(0);
  FUSEC_ASSIGN(const int64_t axis, ImportAxis(context, context.Int("axis", 0), data->type.rank()));
  if (HasInput(context, 1) && !context.SymbolicInts(1, "split")) return SplitByData(context, axis);
  FUSEC_ASSIGN(const Exprs lengths, SplitLengths(context, data->type.shape[axis]));
  WholeSlice part(data->type.shape);
  for (int i = 0; i < context.output_count(); ++i) {
    part.shape[axis] = lengths[i];
    if (context.output_used(i)) {
      FUSEC_ASSIGN(Value * value, AddView(context, OpKind::kSlice, {data}, part.ToAttributes()));
      context.SetOutput(i, value);
    }
    part.starts[axis] = part.starts[axis] + lengths[i];
  }
  return {};
}

// A Tile with symbolic repeats r, as views: [d] -> [1, d] -> [r, d] -> [r*d], for all axes at once.
Result<void> ImportTileAsViews(ImportContext& context, ArrayRef<Expr> repeats) {
  Value* data = context.input(0);
  Shape apart, repeated, joined;
  for (size_t i = 0; i < repeats.size(); ++i) {
    const Expr& dim = data->type.shape[i];
    apart.insert(apart.end(), {Expr(1), dim});
    repeated.insert(repeated.end(), {repeats[i], dim});
    joined.push_back(repeats[i] * dim);
  }
  FUSEC_ASSIGN(Value * spread, AddView(context, OpKind::kReshape, {data}, {{"shape", apart}}));
  FUSEC_ASSIGN(Value * filled, AddView(context, OpKind::kExpand, {spread}, {{"shape", repeated}}));
  return context.AddNode(OpKind::kReshape, {filled}, {{"shape", joined}});
}

// Whether `position` is a constant that is certainly outside of an axis of `dim` elements.
bool CertainlyOutside(const Expr& position, const Expr& dim) {
  const std::optional<int64_t> number = position.AsConstant();
  const std::optional<int64_t> extent = dim.AsConstant();
  return number && (*number < 0 || (extent && *number >= *extent));
}

}  // namespace

// result[i_0, ..., i_n] = operand[j] with j_a = starts[a] + i_a * steps[a].
struct SliceOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"starts", "dims"}, {"steps", "ints"}, {"shape", "dims"}};
  static Result<void> Import(ImportContext& context) {
    return context.onnx_op() == "Split" ? ImportSplit(context) : ImportSlice(context);
  }
  static InferResult Infer(const InferContext& context) {
    const TensorType& data = context.operand(0);
    const Exprs& starts = context.Dims("starts");
    const std::vector<int64_t>& steps = context.Ints("steps");
    const Shape& shape = context.Dims("shape");
    FUSEC_TRY(CheckCount("starts", starts.size(), data.shape.size()));
    FUSEC_TRY(CheckCount("steps", steps.size(), data.shape.size()));
    FUSEC_TRY(CheckCount("shape", shape.size(), data.shape.size()));
    for (size_t i = 0; i < shape.size(); ++i) {
      if (steps[i] == 0) return ModelError("steps has a 0, expected any other value");
      const std::optional<int64_t> length = shape[i].AsConstant();
      if (length && *length < 0) {
        return ModelError(fmt::format("shape[{}] is {}, expected 0 or more", i, *length));
      }
      if (length == 0) continue;
      const Expr last = starts[i] + (shape[i] - 1) * steps[i];
      if (CertainlyOutside(starts[i], data.shape[i]) || CertainlyOutside(last, data.shape[i])) {
        return ModelError(fmt::format("slice from {} to {} leaves axis {}, which has {} elements",
                                      starts[i].ToString(), last.ToString(), i,
                                      data.shape[i].ToString()));
      }
    }
    return std::vector<TensorType>{{data.dtype, shape}};
  }
  static Result<void> Reference(ReferenceContext& context) {
    FUSEC_ASSIGN(const std::vector<int64_t> starts,
                 EvaluateDims(context.node.Get<Exprs>("starts"), context.symbols));
    const std::vector<int64_t>& steps = context.node.Ints("steps");
    std::vector<int64_t> strides = StridesOf(context.input(0).dims);
    int64_t first = 0;
    for (size_t i = 0; i < strides.size(); ++i) {
      first += starts[i] * strides[i];
      strides[i] *= steps[i];
    }
    MoveElements(context, first, strides);
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    const Exprs& starts = context.node().Get<Exprs>("starts");
    const std::vector<int64_t>& steps = context.node().Ints("steps");
    Exprs source = context.index();
    for (size_t i = 0; i < source.size(); ++i) source[i] = starts[i] + source[i] * steps[i];
    return context.Load(0, source);
  }
};
FUSEC_DEFINE_OP(Slice)

// The operand broadcast to `shape`, which is the shape of the result.
struct ExpandOp {
  static constexpr AttributeSpec kAttributes[] = {{"shape", "dims"}};
  static Result<void> Import(ImportContext& context) {
    const bool is_fill = context.onnx_op() == "ConstantOfShape";
    FUSEC_ASSIGN(Shape shape, SizesOrCounts(context, is_fill ? 0 : 1, "shape"));
    for (size_t i = 0; i < shape.size(); ++i) {
      const std::optional<int64_t> number = shape[i].AsConstant();
      if (number && *number < 0) {
        return context.Fail(fmt::format("shape[{}] is {}, expected 0 or more", i, *number));
      }
    }
    if (!is_fill) {
      FUSEC_ASSIGN(Shape result, BroadcastShapes({context.input(0)->type.shape, shape}));
      return context.AddNode(OpKind::kExpand, {context.input(0)}, {{"shape", std::move(result)}});
    }
    TensorData element(Dtype::kF32, {});
    if (const std::optional<TensorData> value = context.Tensor("value")) {
      if (value->element_count() != 1) {
        return context.Fail(
            fmt::format("value has {} elements, expected 1", value->element_count()));
      }
      element = TensorData(value->dtype(), {});
      std::copy_n(value->bytes(), value->byte_count(), element.mutable_bytes());
    }
    Value* scalar = context.builder().Constant(std::move(element), "fill");
    return context.AddNode(OpKind::kExpand, {scalar}, {{"shape", std::move(shape)}});
  }
  static InferResult Infer(const InferContext& context) {
    FUSEC_ASSIGN(Shape shape, BroadcastShapes({context.operand(0).shape, context.Dims("shape")}));
    return std::vector<TensorType>{{context.operand(0).dtype, std::move(shape)}};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const size_t rank = context.output().dims.size();
    MoveElements(context, 0, BroadcastStrides(context.input(0).dims, rank));
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    return context.Load(0, BroadcastIndex(context.index(), context.node().operand(0)->type.shape));
  }
};
FUSEC_DEFINE_OP(Expand)

// result[i] = operand[i mod operand's dims].
struct TileOp {
  static constexpr AttributeSpec kAttributes[] = {{"repeats", "ints"}};
  static Result<void> Import(ImportContext& context) {
    Value* data = context.input(0);
    FUSEC_ASSIGN(const Exprs repeats, SizesOrCounts(context, 1, "repeats"));
    if (repeats.size() != data->type.shape.size()) {
      return context.Fail(fmt::format("repeats has {} values, but the rank is {}", repeats.size(),
                                      data->type.rank()));
    }
    std::vector<int64_t> numbers;
    for (const Expr& repeat : repeats) {
      if (const std::optional<int64_t> number = repeat.AsConstant()) numbers.push_back(*number);
    }
    if (numbers.size() != repeats.size()) return ImportTileAsViews(context, repeats);
    return context.AddNode(OpKind::kTile, {data}, {{"repeats", std::move(numbers)}});
  }
  static InferResult Infer(const InferContext& context) {
    TensorType result = context.operand(0);
    const std::vector<int64_t>& repeats = context.Ints("repeats");
    FUSEC_TRY(CheckCount("repeats", repeats.size(), result.shape.size()));
    for (size_t i = 0; i < repeats.size(); ++i) {
      if (repeats[i] < 0) {
        return ModelError(fmt::format("repeats[{}] is {}, expected 0 or more", i, repeats[i]));
      }
      result.shape[i] = result.shape[i] * repeats[i];
    }
    return std::vector<TensorType>{std::move(result)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const std::vector<int64_t>& dims = context.input(0).dims;
    const std::vector<int64_t> strides = StridesOf(dims);
    int64_t to = 0;
    ForEachIndex(context.output().dims, [&](ArrayRef<int64_t> index) {
      int64_t from = 0;  // there are elements, so dims[i] > 0
      for (size_t i = 0; i < dims.size(); ++i) from += index[i] % dims[i] * strides[i];
      CopyElement(context.input(0), from, context.output(), to++);
    });
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    const Shape& dims = context.node().operand(0)->type.shape;
    const std::vector<int64_t>& repeats = context.node().Ints("repeats");
    Exprs source = context.index();
    for (size_t i = 0; i < source.size(); ++i) {
      if (repeats[i] == 1) continue;
      source[i] = dims[i].IsConstant(0) ? Expr(0) : Mod(source[i], dims[i], context.ranges());
    }
    return context.Load(0, source);
  }
};
FUSEC_DEFINE_OP(Tile)

}  // namespace fusec
