#include "compiler/ops/pointwise.h"

namespace fusec {
namespace {

// Functions that C's math library has under the same name. ONNX has no op for some of them.
#define FUSEC_C_MATH_OP(Kind, function, ...)                                     \
  struct Kind##Op : Pointwise<Kind##Op, OpKind::k##Kind, kFloats> {              \
    static double Apply(double x) { return std::function(x); }                   \
    static std::string Formula(FormulaContext&) { return #function "{f}({0})"; } \
    __VA_ARGS__                                                                  \
  };
#define FUSEC_NO_ONNX_OP private: void Import();
FUSEC_C_MATH_OP(Acos, acos)
FUSEC_C_MATH_OP(Acosh, acosh)
FUSEC_C_MATH_OP(Asin, asin)
FUSEC_C_MATH_OP(Asinh, asinh)
FUSEC_C_MATH_OP(Atan, atan)
FUSEC_C_MATH_OP(Atanh, atanh)
FUSEC_C_MATH_OP(Cos, cos)
FUSEC_C_MATH_OP(Cosh, cosh)
FUSEC_C_MATH_OP(Erf, erf)
FUSEC_C_MATH_OP(Erfc, erfc, FUSEC_NO_ONNX_OP)
FUSEC_C_MATH_OP(Exp, exp)
FUSEC_C_MATH_OP(Expm1, expm1, FUSEC_NO_ONNX_OP)
FUSEC_C_MATH_OP(Log, log)
FUSEC_C_MATH_OP(Log1p, log1p, FUSEC_NO_ONNX_OP)
FUSEC_C_MATH_OP(Sin, sin)
FUSEC_C_MATH_OP(Sinh, sinh)
FUSEC_C_MATH_OP(Sqrt, sqrt)
FUSEC_C_MATH_OP(Tan, tan)
FUSEC_C_MATH_OP(Tanh, tanh)
#undef FUSEC_C_MATH_OP
#undef FUSEC_NO_ONNX_OP

// base^exponent; it wraps as repeated multiplication would. A negative exponent gives the
// reciprocal rounded toward zero.
int64_t IntegerPower(Dtype dtype, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    const bool is_unit = base == 1 || (base == -1 && !IsUnsigned(dtype));
    return is_unit ? (exponent % 2 == 0 ? 1 : base) : 0;
  }
  int64_t power = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if (exponent & 1) power *= base;
  }
  return power;
}

// base^exponent in the dtype of the base, whatever the dtype of the exponent is.
struct PowOp {
  static Result<void> Import(ImportContext& context) {
    return context.AddNode(OpKind::kPow, Inputs(context));
  }

  static InferResult Infer(const InferContext& context) {
    FUSEC_TRY(CheckDtype(context, 0, kNumbers));
    FUSEC_TRY(CheckDtype(context, 1, kNumbers));
    FUSEC_ASSIGN(Shape shape,
                 BroadcastShapes({context.operand(0).shape, context.operand(1).shape}));
    return std::vector<TensorType>{{context.operand(0).dtype, std::move(shape)}};
  }

  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& base = context.input(0);
    const ReferenceTensor& exponent = context.input(1);
    ReferenceTensor& result = context.output();
    ForEachBroadcast(context, [&](int64_t i, ArrayRef<int64_t> positions) {
      const int64_t b = positions[0], e = positions[1];
      if (IsFloat(base.dtype)) {
        result.reals[i] = std::pow(base.reals[b], ToReal(exponent, e));
      } else if (IsFloat(exponent.dtype)) {
        result.ints[i] = TruncateReal(std::pow(ToReal(base, b), exponent.reals[e]), base.dtype);
      } else {
        result.ints[i] = IntegerPower(base.dtype, base.ints[b], exponent.ints[e]);
      }
    });
    result.WrapInts();
    return {};
  }

  static Scalar Lower(LowerContext& context) {
    const Dtype dtype = context.node().operand(0)->type.dtype;
    FormulaContext formula_context(context, dtype);
    const Scalar base = LoadBroadcast(context, 0);
    Scalar exponent = LoadBroadcast(context, 1);
    auto let = [&](const std::string& formula) {
      return context.Let(FillFormula(formula, {base, exponent}, formula_context), dtype);
    };
    if (!IsFloat(dtype) && !IsFloat(exponent.dtype)) {
      context.Use("power.cuh");
      return let("IntegerPower<{type}>({0}, {1})");
    }
    if (!IsFloat(dtype)) {
      context.Use("power.cuh");
      const std::string power = "SnapToInteger(pow((double){0}, (double){1}))";
      const std::string text = FillFormula(power, {base, exponent}, formula_context);
      return LowerCast(context, context.Let(text, Dtype::kF64), dtype);
    }
    // Exporters write squares and cubes as powers; a product rounds once per multiplication and is
    // much cheaper than pow.
    if (exponent.text() == CLiteral(2, exponent.dtype)) return let("{0} * {0}");
    if (exponent.text() == CLiteral(3, exponent.dtype)) return let("{0} * {0} * {0}");
    if (CTypeName(exponent.dtype) == CTypeName(dtype)) return let("pow{f}({0}, {1})");
    if (dtype == Dtype::kF64) return let("pow({0}, (double){1})");
    return let("(float)pow((double){0}, (double){1})");  // float may not hold the exponent
  }
};

}  // namespace

FUSEC_DEFINE_OP(Acos)
FUSEC_DEFINE_OP(Acosh)
FUSEC_DEFINE_OP(Asin)
FUSEC_DEFINE_OP(Asinh)
FUSEC_DEFINE_OP(Atan)
FUSEC_DEFINE_OP(Atanh)
FUSEC_DEFINE_OP(Cos)
FUSEC_DEFINE_OP(Cosh)
FUSEC_DEFINE_OP(Erf)
FUSEC_DEFINE_OP(Erfc)
FUSEC_DEFINE_OP(Exp)
FUSEC_DEFINE_OP(Expm1)
FUSEC_DEFINE_OP(Log)
FUSEC_DEFINE_OP(Log1p)
FUSEC_DEFINE_OP(Pow)
FUSEC_DEFINE_OP(Sin)
FUSEC_DEFINE_OP(Sinh)
FUSEC_DEFINE_OP(Sqrt)
FUSEC_DEFINE_OP(Tan)
FUSEC_DEFINE_OP(Tanh)

}  // namespace fusec
