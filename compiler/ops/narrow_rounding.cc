#include "compiler/ops/narrow_rounding.h"

#include <cmath>
#include <limits>

namespace fusec {

namespace {

using Special = NarrowType::Layout::Special;

bool IsE4M3(const NarrowType::Layout& layout) {
  return layout.exponent == 4 && layout.mantissa == 3 && layout.special == Special::kOnlyNaN;
}

// The greatest power of two that is not greater than |x|, or 0 if that is denormal.
Value* PowerOfTwoBelow(Formula& f, Value* x) {
  constexpr double kExponentBits = 0x7f800000;
  Value* bits = f.Make(OpKind::kBitCast, {x}, {{"to", Dtype::kI32}});
  bits = f.Make(OpKind::kBitwiseAnd, {bits, f.Number(kExponentBits, Dtype::kI32)});
  return f.Make(OpKind::kBitCast, {bits}, {{"to", Dtype::kF32}});
}

// The low bits of integers of the dtype in which `type` is held, with the sign of the highest.
Value* Wrapped(Formula& f, Value* x, const NarrowType& type) {
  const auto number = [&](int64_t value) {
    return f.Number(static_cast<double>(value), type.held);
  };
  const int64_t sign = int64_t{1} << (type.bits - 1);
  Value* low = f.Make(OpKind::kBitwiseAnd, {x, number(2 * sign - 1)});
  if (IsUnsigned(type.held)) return low;
  return f.Sub(f.Make(OpKind::kBitwiseXor, {low, number(sign)}), number(sign));
}

}  // namespace

Value* RoundedTo(Formula& f, Value* x, const NarrowType::Layout& layout, bool saturates) {
  x = f.Cast(x, Dtype::kF32);
  if (IsE4M3(layout) && saturates) return f.Unary(OpKind::kFromE4M3, f.Unary(OpKind::kToE4M3, x));
  const auto number = [&](double value) { return f.Number(value, Dtype::kF32); };
  const double greatest = layout.Greatest();
  saturates |= layout.special == Special::kNone;
  Value* within = x;
  if (saturates) {
    within = f.Make(OpKind::kMax, {within, number(-greatest)});
    within = f.Make(OpKind::kMin, {within, number(greatest)});
  }
  // Neighbours are this far apart.
  Value* power = f.Make(OpKind::kMax, {PowerOfTwoBelow(f, within), number(layout.LeastNormal())});
  Value* step = f.Mul(power, std::ldexp(1.0, -layout.mantissa));
  Value* rounded = f.Mul(f.Unary(OpKind::kRound, f.Div(within, step)), step);
  if (saturates) return rounded;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Value* beyond = number(std::numeric_limits<double>::quiet_NaN());
  if (layout.special == Special::kInfinities) beyond = f.Mul(x, kInfinity);
  Value* is_finite =
      f.Make(OpKind::kLessOrEqual, {f.Unary(OpKind::kAbs, rounded), number(greatest)});
  return f.Where(is_finite, rounded, beyond);
}

Result<void> ImportNarrowCast(ImportContext& context, const NarrowType& type) {
  Formula f(context);
  Value* x = context.input(0);
  Value* y = nullptr;
  if (IsInteger(type.held)) {
    y = Wrapped(f, f.Cast(x, type.held), type);
  } else if (type.layout) {
    y = RoundedTo(f, x, *type.layout, context.Int("saturate", 1) != 0);
  } else {
    return context.Fail("fusec does not cast to powers of two (float8e8m0)");
  }
  FUSEC_TRY(f.Finish({y}));
  context.SetOutput(0, y, type);
  return {};
}

}  // namespace fusec
