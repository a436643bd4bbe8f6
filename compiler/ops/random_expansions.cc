// Random numbers are a hash of the seed and of an element's position, so that a model gives the
// same results in every run and on every device.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "compiler/ops/formula.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

// The bits of the float attribute `seed`; 0 for a node without one.
uint32_t SeedOf(const ImportContext& context) {
  const auto seed = static_cast<float>(context.Float("seed", 0));
  uint32_t bits = 0;
  std::memcpy(&bits, &seed, sizeof(bits));
  return bits;
}

// f32[count] in [0, 1), multiples of 2^-24. The hash is Wellons' lowbias32.
Value* Uniform(Formula& f, const Expr& count, uint32_t seed) {
  const auto number = [&](uint32_t value) { return f.Number(value, Dtype::kU32); };
  const auto shifted = [&](Value* x, uint32_t bits) {
    return f.Make(OpKind::kBitShift, {x, number(bits)}, {{"direction", std::string("RIGHT")}});
  };
  const auto mixed = [&](Value* x, uint32_t bits) {
    return f.Make(OpKind::kBitwiseXor, {x, shifted(x, bits)});
  };
  Value* x = f.Cast(f.Iota(0, count), Dtype::kU32);
  x = f.Add(f.Mul(x, number(0x9e3779b9u)), number(seed * 0x85ebca6bu + 0x165667b1u));
  x = f.Mul(mixed(x, 16), number(0x7feb352du));
  x = f.Mul(mixed(x, 15), number(0x846ca68bu));
  x = mixed(x, 16);
  return f.Mul(f.Cast(shifted(x, 8), Dtype::kF32), 0x1p-24);
}

struct Drawn {
  Shape shape;
  Dtype dtype = Dtype::kF32;
};

Result<Drawn> FromAttributes(const ImportContext& context) {
  const std::vector<int64_t> dims = context.Ints("shape");
  for (int64_t dim : dims) {
    if (dim < 0) return context.Fail(fmt::format("shape has {}, expected 0 or more", dim));
  }
  FUSEC_ASSIGN(const Dtype dtype, context.Type("dtype", Dtype::kF32));
  return Drawn{Shape(dims.begin(), dims.end()), dtype};
}

Result<Drawn> FromOperand(const ImportContext& context) {
  const TensorType& like = context.input(0)->type;
  FUSEC_ASSIGN(const Dtype dtype, context.Type("dtype", like.dtype));
  return Drawn{like.shape, dtype};
}

Result<void> Finish(Formula& f, const ImportContext& context, const Drawn& drawn, Value* values) {
  if (!IsFloat(drawn.dtype)) {
    return context.Fail(fmt::format("dtype is {}, expected floats", DtypeName(drawn.dtype)));
  }
  return f.Finish({f.Cast(f.Reshape(values, drawn.shape), drawn.dtype)});
}

// low + u (high - low)
Result<void> ImportUniform(ImportContext& context, const Result<Drawn>& drawn) {
  FUSEC_TRY(drawn);
  Formula f(context);
  const double low = context.Float("low", 0), high = context.Float("high", 1);
  Value* uniform = Uniform(f, Product(drawn->shape), SeedOf(context));
  return Finish(f, context, *drawn, f.Add(f.Mul(uniform, high - low), low));
}

// Box and Muller: mean + scale sqrt(-2 ln(1 - u)) cos(2 pi v)
Result<void> ImportNormal(ImportContext& context, const Result<Drawn>& drawn) {
  FUSEC_TRY(drawn);
  Formula f(context);
  const Expr count = Product(drawn->shape);
  const uint32_t seed = SeedOf(context);
  Value* u = Uniform(f, count, seed);
  Value* v = Uniform(f, count, ~seed);
  Value* rest = f.Sub(f.Number(1, Dtype::kF32), u);  // in (0, 1]
  Value* radius = f.Unary(OpKind::kSqrt, f.Mul(f.Unary(OpKind::kLog, rest), -2));
  Value* normal = f.Mul(radius, f.Unary(OpKind::kCos, f.Mul(v, 2 * M_PI)));
  return Finish(f, context, *drawn,
                f.Add(f.Mul(normal, context.Float("scale", 1)), context.Float("mean", 0)));
}

}  // namespace

Result<void> ImportRandomUniform(ImportContext& context) {
  return ImportUniform(context, FromAttributes(context));
}
Result<void> ImportRandomUniformLike(ImportContext& context) {
  return ImportUniform(context, FromOperand(context));
}
Result<void> ImportRandomNormal(ImportContext& context) {
  return ImportNormal(context, FromAttributes(context));
}
Result<void> ImportRandomNormalLike(ImportContext& context) {
  return ImportNormal(context, FromOperand(context));
}

}  // namespace fusec
