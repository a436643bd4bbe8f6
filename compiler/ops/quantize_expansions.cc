// Quantization: real = (integer - zero point) * scale.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/narrow_rounding.h"
#include "compiler/ops/quantization.h"
#include "compiler/ops/reduction_common.h"
#include "compiler/ops/view_support.h"
#include "compiler/ops/windows.h"

namespace fusec {

Value* Centred(Formula& f, Value* x, Value* zero_point, Dtype dtype) {
  x = f.Cast(x, dtype);
  return zero_point == nullptr ? x : f.Sub(x, f.Cast(zero_point, dtype));
}

Value* OfFactor(const ImportContext& context, Formula& f, int i, bool as_column) {
  if (!HasInput(context, i)) return nullptr;
  Value* parameter = context.input(i);
  if (parameter->type.ElementCount().IsConstant(1)) return f.Reshape(parameter, {});
  if (parameter->type.rank() != 1 || !as_column) return parameter;
  return f.Reshape(parameter, {parameter->type.shape[0], 1});
}

namespace {

// Reshapes a scale or zero point so that it broadcasts to x. It is one number, one number per index
// of `axis`, or with block_size B one number per B neighbors along that axis.
Result<Value*> Spread(const ImportContext& context, Formula& f, Value* parameter, ShapeRef x,
                      const std::string& what) {
  const Shape given = parameter->type.shape;
  if (parameter->type.ElementCount().IsConstant(1)) return f.Reshape(parameter, {});
  const int rank = static_cast<int>(x.size());
  FUSEC_ASSIGN(const int64_t axis, ImportAxis(context, context.Int("axis", 1), rank));
  const int64_t block = context.Int("block_size", 0);
  const auto refused = [&] {
    return context.Fail(fmt::format("{} is {}, which does not fit axis {} of {}", what,
                                    parameter->type.ToString(), axis, ShapeText(x)));
  };
  if (block == 0) {
    if (given != Shape{x[axis]}) return refused();
    return f.AlongAxis(parameter, axis, rank);
  }
  Shape blocks(x);
  if (block < 0) return refused();
  blocks[axis] = CeilDiv(x[axis], block, context.ranges());
  if (given != blocks) return refused();
  Shape apart(blocks), filled(blocks), joined(blocks);
  apart.insert(apart.begin() + axis + 1, Expr(1));
  filled.insert(filled.begin() + axis + 1, Expr(block));
  joined[axis] = blocks[axis] * block;
  Value* repeated = f.Reshape(f.Expand(f.Reshape(parameter, apart), filled), joined);
  return f.Slice(repeated, static_cast<int>(axis), 0, x[axis]);
}

Value* GivenOrNull(const ImportContext& context, int i) {
  return HasInput(context, i) ? context.input(i) : nullptr;
}

// round(x) + zero point, ties to even, clamped to `least` to `greatest`. `zero_point` may be null.
Value* Saturated(Formula& f, Value* x, Value* zero_point, Dtype to, int64_t least,
                 int64_t greatest) {
  const Dtype real = x->type.dtype;
  Value* y = f.Unary(OpKind::kRound, x);
  if (zero_point != nullptr) y = f.Add(y, f.Cast(zero_point, real));
  y = f.Make(OpKind::kMax, {y, f.Number(static_cast<double>(least), real)});
  y = f.Make(OpKind::kMin, {y, f.Number(static_cast<double>(greatest), real)});
  return f.Cast(y, to);
}

// The same, clamped to the range of `to`.
Value* Saturated(Formula& f, Value* x, Value* zero_point, Dtype to) {
  return Saturated(f, x, zero_point, to, LeastInteger(to), GreatestInteger(to));
}

// y = round(x / scale) to the nearest number of a narrow type, or as Saturated for integers.
Result<void> FinishNarrow(ImportContext& context, Formula& f, Value* ratio, Value* zero_point,
                          const NarrowType& type) {
  Value* y = nullptr;
  if (IsInteger(type.held)) {
    y = Saturated(f, ratio, zero_point, type.held, type.LeastInteger(), type.GreatestInteger());
  } else if (type.layout) {  // whose zero point is 0 (ONNX, QuantizeLinear)
    y = RoundedTo(f, ratio, *type.layout, context.Int("saturate", 1) != 0);
  } else {
    return context.Fail("fusec does not quantize to powers of two (float8e8m0)");
  }
  FUSEC_TRY(f.Finish({y}));
  context.SetOutput(0, y, type);
  return {};
}

Result<void> CheckRank(const ImportContext& context, int i, int least) {
  if (context.input(i)->type.rank() >= least) return {};
  return context.Fail(fmt::format("input {} is {}, expected rank {} or more", i,
                                  context.input(i)->type.ToString(), least));
}

// A convolution of integers computed in f64, which is exact for sums below 2^53.
Value* ExactConv(const ImportContext& context, Formula& f, Value* x, Value* w,
                 const Windows& windows) {
  return f.Make(OpKind::kConv, {f.Cast(x, Dtype::kF64), f.Cast(w, Dtype::kF64)},
                {{"pads", windows.pads},
                 {"strides", windows.strides},
                 {"dilations", windows.dilations},
                 {"group", context.Int("group", 1)}});
}

Result<Windows> ImportConvWindows(const ImportContext& context, const Value* x, const Value* w) {
  const auto weights = StaticShape(w->type.shape);
  if (!weights || w->type.rank() != x->type.rank() || weights->size() < 3) {
    return context.Fail(
        fmt::format("x is {} and the weights {}, expected one rank of 3 or more and "
                    "fixed weights",
                    x->type.ToString(), w->type.ToString()));
  }
  return ImportWindows(context, x->type.shape,
                       std::vector<int64_t>(weights->begin() + 2, weights->end()));
}

}  // namespace

// y = saturate(round(x / scale) + zero point)
Result<void> ImportQuantizeLinear(ImportContext& context) {
  Formula f(context);
  Value* x = context.input(0);
  FUSEC_ASSIGN(Value * scale, Spread(context, f, context.input(1), x->type.shape, "y_scale"));
  Value* zero_point = GivenOrNull(context, 2);
  Dtype to = Dtype::kU8;
  std::optional<NarrowType> narrow;
  if (zero_point != nullptr) {
    to = zero_point->type.dtype;
    narrow = context.Narrow(2);
    FUSEC_ASSIGN(zero_point, Spread(context, f, zero_point, x->type.shape, "y_zero_point"));
  } else if (context.Int("output_dtype", 0) != 0) {
    narrow = context.Narrow("output_dtype");
    if (!narrow) {
      FUSEC_ASSIGN(to, context.Type("output_dtype", Dtype::kU8));
    }
  }
  const Dtype real = x->type.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  Value* ratio = f.Div(f.Cast(x, real), f.Cast(scale, real));
  if (narrow) return FinishNarrow(context, f, ratio, zero_point, *narrow);
  if (!IsInteger(to)) {
    return context.Fail(fmt::format("it quantizes to {}, expected integers", DtypeName(to)));
  }
  return f.Finish({Saturated(f, ratio, zero_point, to)});
}

// y = (x - zero point) * scale
Result<void> ImportDequantizeLinear(ImportContext& context) {
  Formula f(context);
  Value* x = context.input(0);
  const Dtype dtype = context.input(1)->type.dtype;
  FUSEC_ASSIGN(Value * scale, Spread(context, f, context.input(1), x->type.shape, "x_scale"));
  Value* zero_point = GivenOrNull(context, 2);
  if (zero_point != nullptr) {
    FUSEC_ASSIGN(zero_point, Spread(context, f, zero_point, x->type.shape, "x_zero_point"));
  }
  const Dtype real = ComputeDtype(dtype);
  Value* centred = nullptr;
  if (IsFloat(x->type.dtype))
    centred = f.Cast(x, real);
  else if (DtypeBytes(x->type.dtype) <= 2)  // whose differences are exact in f32
    centred = Centred(f, x, zero_point, real);
  else
    centred = f.Cast(Centred(f, x, zero_point), real);
  Dtype to = dtype;
  if (context.Int("output_dtype", 0) != 0) {
    FUSEC_ASSIGN(to, context.Type("output_dtype", dtype));
  }
  return f.Finish({f.Cast(f.Mul(centred, f.Cast(scale, real)), to)});
}

// y = saturate(round((a - za) (b - zb) * (sa sb / sy)) + zy)
Result<void> ImportQLinearMatMul(ImportContext& context) {
  FUSEC_TRY(CheckRank(context, 0, 2));
  FUSEC_TRY(CheckRank(context, 3, 2));
  Formula f(context);
  Value* a_scale = OfFactor(context, f, 1, /*as_column=*/true);
  Value* a_zero = OfFactor(context, f, 2, /*as_column=*/true);
  Value* b_scale = OfFactor(context, f, 4, /*as_column=*/false);
  Value* b_zero = OfFactor(context, f, 5, /*as_column=*/false);
  Value* y_scale = OfFactor(context, f, 6, /*as_column=*/true);
  Value* y_zero = OfFactor(context, f, 7, /*as_column=*/true);
  Value* product =
      f.Make(OpKind::kMatMulInteger, {context.input(0), context.input(3), a_zero, b_zero});
  const auto real = [&](Value* x) { return f.Cast(x, Dtype::kF32); };
  Value* scale = f.Div(f.Mul(real(a_scale), real(b_scale)), real(y_scale));
  return f.Finish(
      {Saturated(f, f.Mul(real(product), scale), y_zero, context.input(7)->type.dtype)});
}

// The convolution of (x - x's zero point) and (w - w's zero point) as i32.
Result<void> ImportConvInteger(ImportContext& context) {
  Value* x = context.input(0);
  Value* w = context.input(1);
  FUSEC_ASSIGN(const Windows windows, ImportConvWindows(context, x, w));
  Formula f(context);
  Value* x_zero = GivenOrNull(context, 2);
  Value* w_zero = GivenOrNull(context, 3);
  if (x_zero != nullptr) x_zero = f.Reshape(x_zero, {});
  if (w_zero != nullptr) w_zero = f.AlongAxis(w_zero, 0, w->type.rank());
  Value* y = ExactConv(context, f, Centred(f, x, x_zero), Centred(f, w, w_zero), windows);
  return f.Finish({f.Cast(y, Dtype::kI32)});
}

// The same with an i32 bias per output channel; the result is scaled and saturated as in
// QLinearMatMul.
Result<void> ImportQLinearConv(ImportContext& context) {
  Value* x = context.input(0);
  Value* w = context.input(3);
  FUSEC_ASSIGN(const Windows windows, ImportConvWindows(context, x, w));
  Formula f(context);
  const int rank = x->type.rank();
  Value* w_zero = f.AlongAxis(context.input(5), 0, rank);
  Value* y = ExactConv(context, f, Centred(f, x, f.Reshape(context.input(2), {})),
                       Centred(f, w, w_zero), windows);
  if (Value* bias = GivenOrNull(context, 8)) {
    if (bias->type.rank() != 1)
      return context.Fail("the bias is " + bias->type.ToString() + ", expected rank 1");
    y = f.Add(y, f.Cast(f.AlongAxis(bias, 1, rank), Dtype::kF64));
  }
  const auto real = [&](Value* value) { return f.Cast(value, Dtype::kF32); };
  Value* scale = f.Div(
      f.Mul(real(f.Reshape(context.input(1), {})), real(f.AlongAxis(context.input(4), 1, rank))),
      real(f.Reshape(context.input(6), {})));
  Value* y_zero = f.Reshape(context.input(7), {});
  return f.Finish({Saturated(f, f.Mul(real(y), scale), y_zero, context.input(7)->type.dtype)});
}

}  // namespace fusec
