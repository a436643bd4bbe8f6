#include "compiler/ops/pointwise.h"

namespace fusec {
namespace {

struct ReluOp : Pointwise<ReluOp, OpKind::kRelu, kNumbers> {
  template <class T>
  static T Apply(T x) { return x < 0 ? 0 : x; }
  static std::string Formula(FormulaContext& context) {
    return context.is_unsigned() ? "{0}" : "{0} < {zero} ? {zero} : {0}";
  }
};

struct LeakyReluOp : Pointwise<LeakyReluOp, OpKind::kLeakyRelu, kFloats> {
  static constexpr AttributeDefault kDefaults[] = {{"alpha", 0.01f}};
  static double Apply(double x, const Node& node) { return x < 0 ? node.Float("alpha") * x : x; }
  static std::string Formula(FormulaContext&) { return "{0} < {zero} ? {alpha} * {0} : {0}"; }
};

// LeakyRelu with a slope per element; the slope must broadcast to x, not the other way round.
struct PReluOp : Pointwise<PReluOp, OpKind::kPRelu, kNumbers> {
  static InferResult Infer(const InferContext& context) {
    FUSEC_ASSIGN(std::vector<TensorType> types, InferPointwise(context, kNumbers, false));
    if (types[0].shape == context.operand(0).shape) return types;
    return ModelError("slope " + context.operand(1).ToString() + " does not broadcast to " +
                      context.operand(0).ToString());
  }
  template <class T>
  static T Apply(T x, T slope) { return x < 0 ? slope * x : x; }
  static std::string Formula(FormulaContext& context) {
    return context.is_unsigned() ? "{0}" : "{0} < {zero} ? {1} * {0} : {0}";
  }
};

struct ThresholdedReluOp : Pointwise<ThresholdedReluOp, OpKind::kThresholdedRelu, kFloats> {
  static constexpr AttributeDefault kDefaults[] = {{"alpha", 1.0f}};
  static double Apply(double x, const Node& node) { return x > node.Float("alpha") ? x : 0; }
  static std::string Formula(FormulaContext&) { return "{0} > {alpha} ? {0} : {zero}"; }
};

// x below 0: alpha (e^x - 1)
struct EluOp : Pointwise<EluOp, OpKind::kElu, kFloats> {
  static constexpr AttributeDefault kDefaults[] = {{"alpha", 1.0f}};
  static double Apply(double x, const Node& node) {
    return x < 0 ? node.Float("alpha") * std::expm1(x) : x;
  }
  static std::string Formula(FormulaContext&) {
    return "{0} < {zero} ? {alpha} * expm1{f}({0}) : {0}";
  }
};

// x below 0: alpha (e^(x / alpha) - 1)
struct CeluOp : Pointwise<CeluOp, OpKind::kCelu, kFloats> {
  static constexpr AttributeDefault kDefaults[] = {{"alpha", 1.0f}};
  static double Apply(double x, const Node& node) {
    const double alpha = node.Float("alpha");
    return x < 0 ? alpha * std::expm1(x / alpha) : x;
  }
  static std::string Formula(FormulaContext&) {
    return "{0} < {zero} ? {alpha} * expm1{f}({0} / {alpha}) : {0}";
  }
};

// gamma elu(x)
struct SeluOp : Pointwise<SeluOp, OpKind::kSelu, kFloats> {
  static constexpr AttributeDefault kDefaults[] = {{"alpha", 1.67326319217681884765625f},
                                                   {"gamma", 1.05070102214813232421875f}};
  static double Apply(double x, const Node& node) {
    return node.Float("gamma") * (x < 0 ? node.Float("alpha") * std::expm1(x) : x);
  }
  static std::string Formula(FormulaContext&) {
    return "{gamma} * ({0} < {zero} ? {alpha} * expm1{f}({0}) : {0})";
  }
};

struct SigmoidOp : Pointwise<SigmoidOp, OpKind::kSigmoid, kFloats> {
  static double Apply(double x) { return 1 / (1 + std::exp(-x)); }
  static std::string Formula(FormulaContext& context) {
    context.Use("sigmoid.cuh");
    return "Sigmoid({0})";
  }
};

// x sigmoid(alpha x); alpha = 1 is SiLU
struct SwishOp : Pointwise<SwishOp, OpKind::kSwish, kFloats> {
  static constexpr AttributeDefault kDefaults[] = {{"alpha", 1.0f}};
  static double Apply(double x, const Node& node) {
    return x / (1 + std::exp(-node.Float("alpha") * x));
  }
  static std::string Formula(FormulaContext& context) {
    context.Use("sigmoid.cuh");
    return context.node.Float("alpha") == 1 ? "{0} * Sigmoid({0})" : "{0} * Sigmoid({alpha} * {0})";
  }
};

double Clamp01(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

// alpha x + beta, clamped to 0..1
struct HardSigmoidOp : Pointwise<HardSigmoidOp, OpKind::kHardSigmoid, kFloats> {
  static constexpr AttributeDefault kDefaults[] = {{"alpha", 0.2f}, {"beta", 0.5f}};
  static double Apply(double x, const Node& node) {
    return Clamp01(node.Float("alpha") * x + node.Float("beta"));
  }
  static std::string Formula(FormulaContext& context) {
    context.Use("hard_sigmoid.cuh");
    return "HardSigmoid({0}, {alpha}, {beta})";
  }
};

// x hard_sigmoid(x) with alpha = 1/6, beta = 1/2
struct HardSwishOp : Pointwise<HardSwishOp, OpKind::kHardSwish, kFloats> {
  static double Apply(double x) { return x * Clamp01(x / 6 + 0.5); }
  static std::string Formula(FormulaContext& context) {
    context.Use("hard_sigmoid.cuh");
    return "HardSwish({0})";
  }
};

// log(1 + e^x), without overflow
double Softplus(double x) { return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x))); }

struct SoftplusOp : Pointwise<SoftplusOp, OpKind::kSoftplus, kFloats> {
  static double Apply(double x) { return Softplus(x); }
  static std::string Formula(FormulaContext& context) {
    context.Use("softplus.cuh");
    return "Softplus({0})";
  }
};

// x tanh(softplus(x))
struct MishOp : Pointwise<MishOp, OpKind::kMish, kFloats> {
  static double Apply(double x) { return x * std::tanh(Softplus(x)); }
  static std::string Formula(FormulaContext& context) {
    context.Use("mish.cuh");
    return "Mish({0})";
  }
};

struct SoftsignOp : Pointwise<SoftsignOp, OpKind::kSoftsign, kFloats> {
  static double Apply(double x) { return x / (1 + std::fabs(x)); }
  static std::string Formula(FormulaContext&) { return "{0} / ({one} + fabs{f}({0}))"; }
};

// Moves x toward zero by `bias` outside of -lambd..lambd, and gives zero inside. Integers are
// computed in double, because both attributes are real.
struct ShrinkOp : Pointwise<ShrinkOp, OpKind::kShrink, kNumbers> {
  static constexpr AttributeDefault kDefaults[] = {{"bias", 0.0f}, {"lambd", 0.5f}};
  template <class T>
  static T Apply(T x, const Node& node) {
    const double lambd = node.Float("lambd"), bias = node.Float("bias");
    const double value = static_cast<double>(x);
    const double shrunk = value < -lambd ? value + bias : value > lambd ? value - bias : 0;
    if constexpr (std::is_floating_point_v<T>) return shrunk;
    else return static_cast<T>(TruncateReal(shrunk, node.operand(0)->type.dtype));
  }
  static std::string Formula(FormulaContext&) {
    return "{0} < -{lambd} ? {0} + {bias} : {0} > {lambd} ? {0} - {bias} : {zero}";
  }
  static Scalar Lower(LowerContext& context) {
    const Dtype dtype = context.node().operand(0)->type.dtype;
    if (IsFloat(dtype)) return LowerPointwise(context, &Formula, false);
    FormulaContext formula_context(context, Dtype::kF64);
    const Scalar x = LowerCast(context, LoadBroadcast(context, 0), Dtype::kF64);
    const std::string text = FillFormula(Formula(formula_context), {x}, formula_context);
    return LowerCast(context, context.Let(text, Dtype::kF64), dtype);
  }
};

// x Phi(x), where Phi is the normal distribution function: x/2 (1 + erf(x / sqrt 2)). Its
// approximation x/2 (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3) equals x / (1 + e^-2u).
struct GeluOp : Pointwise<GeluOp, OpKind::kGelu, kFloats> {
  static constexpr AttributeSpec kAttributes[] = {{"approximate", "none|tanh"}};
  static Result<void> Import(ImportContext& context) {
    const std::string approximate = context.String("approximate", "none");
    if (approximate != "none" && approximate != "tanh") {
      return context.Fail("approximate is \"" + approximate + "\", expected \"none\" or \"tanh\"");
    }
    return context.AddNode(OpKind::kGelu, Inputs(context), {{"approximate", approximate}});
  }
  static bool IsTanh(const Node& node) { return node.Get<std::string>("approximate") == "tanh"; }
  static double Apply(double x, const Node& node) {
    if (!IsTanh(node)) return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    const double u = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    return x / (1 + std::exp(-2 * u));
  }
  static std::string Formula(FormulaContext& context) {
    if (!IsTanh(context.node)) {
      context.Use("gelu.cuh");
      return "Gelu({0})";
    }
    context.Use("sigmoid.cuh");
    context.Use("gelu_tanh.cuh");
    return "GeluTanh({0})";
  }
};

}  // namespace

FUSEC_DEFINE_OP(Celu)
FUSEC_DEFINE_OP(Elu)
FUSEC_DEFINE_OP(Gelu)
FUSEC_DEFINE_OP(HardSigmoid)
FUSEC_DEFINE_OP(HardSwish)
FUSEC_DEFINE_OP(LeakyRelu)
FUSEC_DEFINE_OP(Mish)
FUSEC_DEFINE_OP(PRelu)
FUSEC_DEFINE_OP(Relu)
FUSEC_DEFINE_OP(Selu)
FUSEC_DEFINE_OP(Shrink)
FUSEC_DEFINE_OP(Sigmoid)
FUSEC_DEFINE_OP(Softplus)
FUSEC_DEFINE_OP(Softsign)
FUSEC_DEFINE_OP(Swish)
FUSEC_DEFINE_OP(ThresholdedRelu)

}  // namespace fusec
