// Tensors computed from positions alone, and one_hot, which compares positions with data.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ir/c_text.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/places.h"
#include "compiler/ops/run_time_bound.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

Dtype DtypeOf(const InferContext& context) {
  return std::get<Dtype>(context.attributes.at("dtype"));
}

void SetNumber(ReferenceTensor& tensor, int64_t i, int64_t value) {
  if (IsFloat(tensor.dtype)) {
    tensor.reals[i] = static_cast<double>(value);
  } else {
    tensor.ints[i] = value;
  }
}

// Range of floats: start, limit and delta must be known;
// length = max(0, ceil((limit - start) / delta)).
Result<void> ImportFloatRange(ImportContext& context, Dtype dtype) {
  double numbers[3];
  const char* const names[3] = {"start", "limit", "delta"};
  for (int i = 0; i < 3; ++i) {
    FUSEC_ASSIGN(const TensorData data, context.ConstantInput(i, names[i]));
    if (data.element_count() != 1) {
      return context.Fail(
          fmt::format("{} has {} elements, expected 1", names[i], data.element_count()));
    }
    numbers[i] = data.GetDouble(0);
  }
  const double length = std::ceil((numbers[1] - numbers[0]) / numbers[2]);
  if (!(length < 0x1p53) || !std::isfinite(numbers[2])) {  // also rejects the NaN of a delta of 0
    return context.Fail(
        fmt::format("a range from {} to {} by {} has no end", numbers[0], numbers[1], numbers[2]));
  }
  const Expr count(static_cast<int64_t>(std::max(length, 0.0)));
  return context.AddNode(
      OpKind::kRange, {},
      {{"start", numbers[0]}, {"delta", numbers[2]}, {"length", Exprs{count}}, {"dtype", dtype}});
}

// A scalar input of Range as an expression of symbols.
Result<Expr> RangeNumber(const ImportContext& context, int i) {
  const char* const names[3] = {"start", "limit", "delta"};
  FUSEC_ASSIGN(const Exprs contents, context.SymbolicInts(i, names[i]));
  if (contents.size() != 1) {
    return context.Fail(fmt::format("{} has {} elements, expected 1", names[i], contents.size()));
  }
  return contents[0];
}

// The number of elements of a range of integers: an expression if start and limit are symbolic or
// their difference is, else a run-time count if it has a bound.
Result<Expr> RangeLength(ImportContext& context, int64_t step) {
  Value *start = context.input(0), *limit = context.input(1);
  const std::optional<Expr> distance =
      step > 0 ? KnownDifference(limit, start, context) : KnownDifference(start, limit, context);
  if (distance) {
    const Expr steps = CeilDiv(*distance, step > 0 ? step : -step, context.ranges());
    return Max(steps, 0, context.ranges());
  }
  if (const std::optional<Expr> count = CountBetween(context, start, limit, step)) return *count;
  FUSEC_TRY(RangeNumber(context, 0));
  return RangeNumber(context, 1);
}

// Range of integers. A start that is not constant is added to a range from 0.
Result<void> ImportIntegerRange(ImportContext& context, Dtype dtype) {
  FUSEC_ASSIGN(const Expr delta, RangeNumber(context, 2));
  const std::optional<int64_t> step = delta.AsConstant();
  if (!step || *step == 0 || *step == std::numeric_limits<int64_t>::min()) {
    return context.Fail(
        fmt::format("delta is {}, expected a constant other than 0", delta.ToString()));
  }
  FUSEC_ASSIGN(const Expr length, RangeLength(context, *step));
  const Result<Expr> start = RangeNumber(context, 0);
  const std::optional<int64_t> first = start ? start->AsConstant() : std::nullopt;
  Attributes attributes = {
      {"start", first.value_or(0)}, {"delta", *step}, {"length", Exprs{length}}, {"dtype", dtype}};
  if (first) return context.AddNode(OpKind::kRange, {}, std::move(attributes));
  FUSEC_ASSIGN(Value * range, AddView(context, OpKind::kRange, {}, std::move(attributes)));
  Formula f(context);
  Value* offset = start ? f.Cast(SizeOf(f, *start), dtype) : f.Reshape(context.input(0), {});
  return f.Finish({f.Add(range, offset)});
}

}  // namespace

// result[row, column] = 1 where column - row == k, else 0.
struct EyeLikeOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"shape", "dims"}, {"k", "int"}, {"dtype", "dtype"}};
  static Result<void> Import(ImportContext& context) {
    const TensorType& like = context.input(0)->type;
    FUSEC_ASSIGN(const Dtype dtype, context.Type("dtype", like.dtype));
    return context.AddNode(OpKind::kEyeLike, {},
                           {{"shape", like.shape}, {"k", context.Int("k", 0)}, {"dtype", dtype}});
  }
  static InferResult Infer(const InferContext& context) {
    const Shape& shape = context.Dims("shape");
    if (shape.size() != 2) {
      return ModelError(fmt::format("the rank is {}, expected 2", shape.size()));
    }
    return std::vector<TensorType>{{DtypeOf(context), shape}};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const int64_t k = context.node.Int("k");
    int64_t position = 0;
    ForEachIndex(context.output().dims, [&](ArrayRef<int64_t> index) {
      SetNumber(context.output(), position++, index[1] - index[0] == k ? 1 : 0);
    });
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    const Dtype dtype = context.node().result()->type.dtype;
    const Expr k(context.node().Int("k"));
    const Expr diagonal = context.index()[1] - context.index()[0];
    const auto zero = [&] { return ZeroOf(dtype); };
    const auto one = [&] { return OneOf(dtype); };
    return context.SelectBelow(diagonal, k, dtype, zero, [&] {
      return context.SelectBelow(diagonal, k + 1, dtype, one, zero);
    });
  }
};
FUSEC_DEFINE_OP(EyeLike)

// result[..., d, ...] = values[1] where the index equals d (a negative index counts from the end),
// else values[0]. The new axis has `depth` elements; an index outside -depth..depth-1 gives
// values[0] everywhere.
struct OneHotOp {
  static constexpr AttributeSpec kAttributes[] = {{"axis", "int"}, {"depth", "dims"}};
  static Result<void> Import(ImportContext& context) {
    Value* indices = context.input(0);
    Expr depth;
    if (const std::optional<TensorData> number = context.TryConstant(1)) {  // of any numeric dtype
      if (number->element_count() != 1) {
        return context.Fail(
            fmt::format("depth has {} elements, expected 1", number->element_count()));
      }
      depth = Expr(IsFloat(number->dtype()) ? static_cast<int64_t>(number->GetDouble(0))
                                            : number->GetInt(0));
    } else {
      FUSEC_ASSIGN(const Exprs contents, context.SymbolicInts(1, "depth"));
      if (contents.size() != 1) {
        return context.Fail(fmt::format("depth has {} elements, expected 1", contents.size()));
      }
      depth = contents[0];
    }
    FUSEC_ASSIGN(const int64_t axis,
                 ImportAxis(context, context.Int("axis", -1), indices->type.rank() + 1));
    return context.AddNode(OpKind::kOneHot, {indices, context.input(2)},
                           {{"axis", axis}, {"depth", Exprs{depth}}});
  }
  static InferResult Infer(const InferContext& context) {
    const TensorType& values = context.operand(1);
    const int64_t axis = context.Int("axis");
    TensorType result{values.dtype, context.operand(0).shape};
    FUSEC_TRY(CheckAxis(axis, result.rank() + 1));
    FUSEC_TRY(CheckCount("depth", context.Dims("depth").size(), 1));
    if (values.shape != Shape{2}) {
      return ModelError(fmt::format("the values are {}, expected 2 of them", values.ToString()));
    }
    const Expr& depth = context.Dims("depth")[0];
    if (depth.AsConstant().value_or(0) < 0) {
      return ModelError(fmt::format("depth is {}, expected 0 or more", depth.ToString()));
    }
    result.shape.insert(result.shape.begin() + axis, depth);
    return std::vector<TensorType>{std::move(result)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const int64_t axis = context.node.Int("axis");
    const int64_t depth = context.output().dims[axis];
    const ReferenceTensor& indices = context.input(0);
    int64_t position = 0;
    ForEachIndex(context.output().dims, [&](std::vector<int64_t> index) {
      const int64_t wanted = index[axis];
      index.erase(index.begin() + axis);
      const int64_t place = indices.Position(index);
      bool on;
      if (IsFloat(indices.dtype)) {
        const double value = std::trunc(indices.reals[place]);
        on = value == wanted || value + depth == wanted;
      } else {
        on = indices.ints[place] == wanted || indices.ints[place] + depth == wanted;
      }
      CopyElement(context.input(1), on ? 1 : 0, context.output(), position++);
    });
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    const int64_t axis = context.node().Int("axis");
    const Expr& depth = context.node().Get<Exprs>("depth")[0];
    Exprs place = context.index();
    const Expr wanted = place[axis];
    place.erase(place.begin() + axis);
    const Scalar loaded = context.Load(0, place);
    const Scalar index =
        context.Let(fmt::format("({}){}", CTypeName(Dtype::kI64), loaded.text()), Dtype::kI64);
    const Scalar from_begin = context.DataFromIndex(wanted, Dtype::kI64);
    const Scalar from_end = context.DataFromIndex(wanted - depth, Dtype::kI64);
    const Scalar off = context.Load(1, {Expr(0)});
    const Scalar on = context.Load(1, {Expr(1)});
    return context.Let(fmt::format("{0} == {1} || {0} == {2} ? {3} : {4}", index.text(),
                                   from_begin.text(), from_end.text(), on.text(), off.text()),
                       on.dtype);
  }
};
FUSEC_DEFINE_OP(OneHot)

// result[i] = start + i * delta; start and delta are integers if the dtype is an integer type, else
// floats.
struct RangeOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"start", "number"}, {"delta", "number"}, {"length", "dims"}, {"dtype", "dtype"}};
  static Result<void> Import(ImportContext& context) {
    const Dtype dtype = context.input(0)->type.dtype;
    return IsFloat(dtype) ? ImportFloatRange(context, dtype) : ImportIntegerRange(context, dtype);
  }
  static InferResult Infer(const InferContext& context) {
    FUSEC_TRY(CheckCount("length", context.Dims("length").size(), 1));
    const bool is_float = IsFloat(DtypeOf(context));
    for (const char* name : {"start", "delta"}) {
      if (std::holds_alternative<double>(context.attributes.at(name)) != is_float) {
        return ModelError(fmt::format("{} and dtype {} are not both integers or both floats", name,
                                      DtypeName(DtypeOf(context))));
      }
    }
    return std::vector<TensorType>{{DtypeOf(context), context.Dims("length")}};
  }
  static Result<void> Reference(ReferenceContext& context) {
    ReferenceTensor& output = context.output();
    for (int64_t i = 0; i < output.element_count(); ++i) {
      if (IsFloat(output.dtype)) {
        output.reals[i] =
            context.node.Float("start") + static_cast<double>(i) * context.node.Float("delta");
      } else {
        output.ints[i] = context.node.Int("start") + i * context.node.Int("delta");
      }
    }
    output.WrapInts();
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    const Dtype dtype = context.node().result()->type.dtype;
    const Expr& i = context.index()[0];
    if (!IsFloat(dtype)) {
      return context.DataFromIndex(
          Expr(context.node().Int("start")) + i * context.node().Int("delta"), dtype);
    }
    const Scalar steps = context.DataFromIndex(i, Dtype::kI64);
    return context.Let(
        fmt::format("{} + ({})({}) * {}", CLiteral(context.node().Float("start"), dtype),
                    CTypeName(dtype), steps.text(), CLiteral(context.node().Float("delta"), dtype)),
        dtype);
  }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    if (IsFloat(context.node.result()->type.dtype)) return std::nullopt;
    return Expr(context.node.Int("start") + context.index[0] * context.node.Int("delta"));
  }
};
FUSEC_DEFINE_OP(Range)

// The values of dims as data: an i64[n], or the single value as a scalar.
struct SymbolicDimsOp {
  static constexpr AttributeSpec kAttributes[] = {{"values", "dims"}, {"scalar", "int"}};
  static Result<void> Import(ImportContext& context) {
    const Shape& shape = context.input(0)->type.shape;
    if (context.onnx_op() == "Size") {
      return context.AddNode(OpKind::kSymbolicDims, {},
                             {{"values", Exprs{Product(shape)}}, {"scalar", int64_t{1}}});
    }
    const int64_t rank = static_cast<int64_t>(shape.size());
    const auto clamped = [rank](int64_t axis) {
      return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
    };
    const int64_t start = clamped(context.Int("start", 0));
    const int64_t end = std::max(clamped(context.Int("end", rank)), start);
    return context.AddNode(
        OpKind::kSymbolicDims, {},
        {{"values", Shape(shape.begin() + start, shape.begin() + end)}, {"scalar", int64_t{0}}});
  }
  static InferResult Infer(const InferContext& context) {
    const int64_t count = static_cast<int64_t>(context.Dims("values").size());
    if (context.Int("scalar") != 0) {
      FUSEC_TRY(CheckCount("values", count, 1));
      return std::vector<TensorType>{{Dtype::kI64, {}}};
    }
    return std::vector<TensorType>{{Dtype::kI64, {Expr(count)}}};
  }
  static Result<void> Reference(ReferenceContext& context) {
    FUSEC_ASSIGN(context.output().ints,
                 EvaluateDims(context.node.Get<Exprs>("values"), context.symbols));
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    const Exprs& values = context.node().Get<Exprs>("values");
    if (values.empty()) return {"0", Dtype::kI64};  // has no elements
    Exprs ends;
    for (size_t i = 0; i < values.size(); ++i) ends.emplace_back(static_cast<int64_t>(i + 1));
    const Expr position = context.index().empty() ? Expr(0) : context.index()[0];
    return SelectAmong(context, position, ends, Dtype::kI64,
                       [&](int i) { return context.DataFromIndex(values[i], Dtype::kI64); });
  }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    const Exprs& values = context.node.Get<Exprs>("values");
    return values[context.index.empty() ? 0 : context.index[0]];
  }
};
FUSEC_DEFINE_OP(SymbolicDims)

}  // namespace fusec
