// hardmax, and division by a norm: lp_normalization, lrn.
#include <fmt/format.h>

#include "compiler/ops/formula.h"
#include "compiler/ops/view_support.h"

namespace fusec {

// 1 at the first greatest element along an axis, else 0. Before opset 13, all axes from `axis` on
// form one row.
Result<void> ImportHardmax(ImportContext& context) {
  Value* x = context.input(0);
  const Shape shape = x->type.shape;
  const bool flattens = context.opset() < 13;
  FUSEC_ASSIGN(int64_t axis,
               ImportAxis(context, context.Int("axis", flattens ? 1 : -1), x->type.rank()));
  Formula f(context);
  if (flattens) {
    x = f.Reshape(x, {Product({shape.begin(), shape.begin() + axis}),
                      Product({shape.begin() + axis, shape.end()})});
    axis = 1;
  }
  const Dtype dtype = x->type.dtype;
  const Expr depth = x->type.shape[axis];
  Value* place = f.Make(OpKind::kArgMax, {x},
                        {{"axes", std::vector<int64_t>{axis}},
                         {"keepdims", int64_t{0}},
                         {"select_last_index", int64_t{0}}});
  Value* hot = f.Make(OpKind::kOneHot, {place, f.Tensor(dtype, {2}, {0, 1})},
                      {{"axis", axis}, {"depth", Exprs{depth}}});
  return f.Finish({f.Reshape(hot, shape)});
}

// x / (sum |x|^p)^(1/p) along an axis, for p = 1 or 2; a row of zeros stays zero.
Result<void> ImportLpNormalization(ImportContext& context) {
  Value* x = context.input(0);
  FUSEC_ASSIGN(const int64_t axis, ImportAxis(context, context.Int("axis", -1), x->type.rank()));
  const int64_t p = context.Int("p", 2);
  if (p != 1 && p != 2) return context.Fail(fmt::format("p is {}, expected 1 or 2", p));
  Formula f(context);
  const Dtype dtype = x->type.dtype;
  Value* real = f.Cast(x, ComputeDtype(dtype));
  Value* terms = p == 1 ? f.Unary(OpKind::kAbs, real) : f.Mul(real, real);
  Value* norm = f.Reduce(OpKind::kReduceSum, terms, {axis});
  if (p == 2) norm = f.Unary(OpKind::kSqrt, norm);
  Value* zero = f.Number(0, real->type.dtype);
  Value* is_zero = f.Make(OpKind::kEqual, {norm, zero});
  return f.Finish({f.Cast(f.Where(is_zero, zero, f.Div(real, norm)), dtype)});
}

// y = x / (bias + alpha / size * sum of x^2 over the `size` neighboring channels)^beta
Result<void> ImportLRN(ImportContext& context) {
  Value* x = context.input(0);
  const int rank = x->type.rank();
  const int64_t size = context.Int("size", 0);
  const std::optional<int64_t> channels = rank < 2 ? std::nullopt : x->type.shape[1].AsConstant();
  if (!channels || size < 1 || size > 4096) {
    return context.Fail(fmt::format("x is {} and size {}, expected fixed channels and 1 to 4096",
                                    x->type.ToString(), size));
  }
  Formula f(context);
  const Dtype dtype = x->type.dtype;
  Value* real = f.Cast(x, ComputeDtype(dtype));
  Exprs pads(2 * rank, Expr(0));
  pads[1] = (size - 1) / 2;
  pads[rank + 1] = size - 1 - (size - 1) / 2;
  Value* squares = f.Make(OpKind::kPad, {f.Mul(real, real), f.Number(0, real->type.dtype)},
                          {{"pads", pads}, {"mode", std::string("constant")}});
  Value* sum = f.Slice(squares, 1, 0, *channels);
  for (int64_t i = 1; i < size; ++i) sum = f.Add(sum, f.Slice(squares, 1, i, *channels));
  const double scale = context.Float("alpha", 0.0001) / static_cast<double>(size);
  Value* base = f.Add(f.Mul(sum, scale), context.Float("bias", 1));
  Value* exponent = f.Number(context.Float("beta", 0.75), real->type.dtype);
  return f.Finish({f.Cast(f.Div(real, f.Make(OpKind::kPow, {base, exponent})), dtype)});
}

}  // namespace fusec
