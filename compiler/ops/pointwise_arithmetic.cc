#include <algorithm>
#include <limits>
#include <utility>

#include "compiler/ops/pointwise.h"

namespace fusec {
namespace {

struct AbsOp : Pointwise<AbsOp, OpKind::kAbs, kNumbers> {
  template <class T>
  static T Apply(T x) {
    if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
    else return std::is_signed_v<T> && x < 0 ? -x : x;
  }
  static std::string Formula(FormulaContext& context) {
    if (context.is_float()) return "fabs{f}({0})";
    return context.is_unsigned() ? "{0}" : "{0} < 0 ? -{0} : {0}";
  }
};

struct AddOp : Pointwise<AddOp, OpKind::kAdd, kNumbers> {
  static constexpr bool kKeepsOrder = true;
  template <class T>
  static T Apply(T a, T b) { return a + b; }
  static std::string Formula(FormulaContext&) { return "{0} + {1}"; }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    return context.operands[0] + context.operands[1];
  }
  static std::optional<Expr> OperandLimit(const LimitContext& context) {
    if (!context.limit || !context.other) return std::nullopt;
    return *context.limit - context.other->greatest;
  }
};

struct SubOp : Pointwise<SubOp, OpKind::kSub, kNumbers> {
  template <class T>
  static T Apply(T a, T b) { return a - b; }
  static std::string Formula(FormulaContext&) { return "{0} - {1}"; }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    return context.operands[0] - context.operands[1];
  }
  static std::optional<Expr> OperandLimit(const LimitContext& context) {
    if (!context.limit || !context.other || context.operand == 1) return std::nullopt;
    return *context.limit + context.other->least;
  }
};

struct MulOp : Pointwise<MulOp, OpKind::kMul, kNumbers> {
  template <class T>
  static T Apply(T a, T b) { return a * b; }
  static std::string Formula(FormulaContext&) { return "{0} * {1}"; }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    return context.operands[0] * context.operands[1];
  }
  static std::optional<Expr> OperandLimit(const LimitContext& context) {
    if (!context.limit || !context.other || context.other->least <= 0) return std::nullopt;
    return CeilDiv(*context.limit, context.other->greatest, context.ranges);
  }
};

// Integer division rounds toward zero. ONNX does not define division by zero; here it gives 0, and
// the smallest integer divided by -1 wraps to itself, because neither may stop a CPU kernel with a
// signal.
struct DivOp : Pointwise<DivOp, OpKind::kDiv, kNumbers> {
  template <class T>
  static T Apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a / b;
    if (b == 0) return 0;
    return std::is_signed_v<T> && b == static_cast<T>(-1) ? -a : a / b;
  }
  static std::string Formula(FormulaContext& context) {
    if (context.is_float()) return "{0} / {1}";
    context.Use("divide.cuh");
    return "Divide<{type}>({0}, {1})";
  }
  // Integer division truncates and FloorDiv rounds down; they agree if both operands are
  // non-negative.
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    const ArrayRef<Expr> x = context.operands;
    if (const auto [a, b] = std::pair(x[0].AsConstant(), x[1].AsConstant()); a && b) {
      if (*b == 0 || (*b == -1 && *a == std::numeric_limits<int64_t>::min())) return std::nullopt;
      return Expr(*a / *b);
    }
    const Ranges& ranges = context.ranges;
    if (!ranges.ProvenNonNegative(x[0]) || !ranges.ProvenLess(0, x[1])) return std::nullopt;
    return FloorDiv(x[0], x[1], ranges);
  }
  static std::optional<Expr> OperandLimit(const LimitContext& context) {
    const bool is_known = context.limit && context.other && context.operand == 0;
    if (!is_known || context.other->least <= 0) return std::nullopt;
    return *context.limit * context.other->least;
  }
};

// With fmod = 0 the result has the sign of the divisor, as Python's % (zeros of floats as well);
// with fmod = 1 that of the dividend, as C's.
struct ModOp : Pointwise<ModOp, OpKind::kMod, kNumbers> {
  static constexpr AttributeSpec kAttributes[] = {{"fmod", "int"}};
  static Result<void> Import(ImportContext& context) {
    return context.AddNode(OpKind::kMod, Inputs(context), {{"fmod", context.Int("fmod", 0)}});
  }
  template <class T>
  static T Apply(T a, T b, const Node& node) {
    T remainder = 0;
    if constexpr (std::is_floating_point_v<T>) remainder = std::fmod(a, b);
    else remainder = a - DivOp::Apply(a, b) * b;
    if constexpr (!std::is_floating_point_v<T>) {
      if (b == 0) return 0;
    }
    if (node.Int("fmod") != 0) return remainder;
    if constexpr (std::is_floating_point_v<T>) {
      if (remainder == 0) return std::copysign(remainder, b);
    }
    const bool wrong_sign = remainder != 0 && (remainder < 0) != (b < 0);
    return wrong_sign ? remainder + b : remainder;
  }
  static std::string Formula(FormulaContext& context) {
    const bool truncates = context.node.Int("fmod") != 0;
    if (context.is_float() && truncates) return "fmod{f}({0}, {1})";
    context.Use("mod.cuh");
    if (context.is_float()) return "FloatFloorMod({0}, {1})";
    return truncates ? "Remainder<{type}>({0}, {1})" : "FloorMod<{type}>({0}, {1})";
  }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    const ArrayRef<Expr> x = context.operands;
    const Ranges& ranges = context.ranges;
    if (!ranges.ProvenNonNegative(x[0]) || !ranges.ProvenLess(0, x[1])) return std::nullopt;
    return Mod(x[0], x[1], ranges);
  }
  // Every integer has a remainder, so the limit only keeps random values small enough (2^62 for 64
  // bits) that products with constants rarely overflow.
  static std::optional<Expr> OperandLimit(const LimitContext& context) {
    if (context.operand == 1) return std::nullopt;
    return DtypeBytes(context.dtype) == 8 ? Expr(int64_t{1} << 62)
                                          : Expr(std::numeric_limits<int32_t>::max());
  }
};

struct NegOp : Pointwise<NegOp, OpKind::kNeg, kFloats | kSignedInts> {
  template <class T>
  static T Apply(T x) { return -x; }
  static std::string Formula(FormulaContext&) { return "-{0}"; }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    return -context.operands[0];
  }
};

struct ReciprocalOp : Pointwise<ReciprocalOp, OpKind::kReciprocal, kFloats> {
  static double Apply(double x) { return 1.0 / x; }
  static std::string Formula(FormulaContext&) { return "{one} / {0}"; }
};

// The sign of NaN is NaN, and the sign of zero is zero.
struct SignOp : Pointwise<SignOp, OpKind::kSign, kNumbers> {
  template <class T>
  static T Apply(T x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
  static std::string Formula(FormulaContext& context) {
    if (context.is_unsigned()) return "{0} > 0 ? 1 : 0";
    return "{0} > {zero} ? {one} : {0} < {zero} ? -{one} : {0}";
  }
};

struct CeilOp : Pointwise<CeilOp, OpKind::kCeil, kFloats> {
  static double Apply(double x) { return std::ceil(x); }
  static std::string Formula(FormulaContext&) { return "ceil{f}({0})"; }
};

struct FloorOp : Pointwise<FloorOp, OpKind::kFloor, kFloats> {
  static double Apply(double x) { return std::floor(x); }
  static std::string Formula(FormulaContext&) { return "floor{f}({0})"; }
};

// Rounds to nearest, ties to even.
struct RoundOp : Pointwise<RoundOp, OpKind::kRound, kFloats> {
  static double Apply(double x) { return std::nearbyint(x); }
  static std::string Formula(FormulaContext&) { return "rint{f}({0})"; }
};

// Max and Min of one operand are that operand.
Result<void> ImportExtremum(ImportContext& context, OpKind kind) {
  if (context.input_count() > 1) return ImportPointwise(context, kind, {});
  context.SetOutput(0, context.input(0));
  return {};
}

// If any operand is NaN, the result is NaN, as with NumPy's maximum and unlike C's fmax.
struct MaxOp : Pointwise<MaxOp, OpKind::kMax, kNumbers> {
  static constexpr bool kKeepsOrder = true;
  static Result<void> Import(ImportContext& context) {
    return ImportExtremum(context, OpKind::kMax);
  }
  template <class T>
  static T Apply(T a, T b) { return a > b || a != a ? a : b; }
  static std::string Formula(FormulaContext& context) {
    if (!context.is_float()) return "{0} > {1} ? {0} : {1}";
    context.Use("minmax.cuh");
    return "Max({0}, {1})";
  }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    Expr greatest = context.operands[0];
    for (const Expr& x : context.operands) greatest = Max(greatest, x, context.ranges);
    return greatest;
  }
  static std::optional<Expr> OperandLimit(const LimitContext& context) { return context.limit; }
};

struct MinOp : Pointwise<MinOp, OpKind::kMin, kNumbers> {
  static constexpr bool kKeepsOrder = true;
  static Result<void> Import(ImportContext& context) {
    return ImportExtremum(context, OpKind::kMin);
  }
  template <class T>
  static T Apply(T a, T b) { return a < b || a != a ? a : b; }
  static std::string Formula(FormulaContext& context) {
    if (!context.is_float()) return "{0} < {1} ? {0} : {1}";
    context.Use("minmax.cuh");
    return "Min({0}, {1})";
  }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    Expr least = context.operands[0];
    for (const Expr& x : context.operands) least = Min(least, x, context.ranges);
    return least;
  }
};

// min(max(x, low), high), so that `high` wins if low > high. Either bound may be absent. NaN stays
// NaN.
struct ClipOp {
  static Result<void> Import(ImportContext& context) {
    Value* x = context.input(0);
    ValueList operands = Inputs(context);
    operands.resize(3, nullptr);
    // Before opset 11 the bounds are attributes.
    const char* bounds[] = {"min", "max"};
    for (int i = 0; i < 2; ++i) {
      if (!context.Has(bounds[i])) continue;
      operands[i + 1] = context.builder().Scalar(x->type.dtype, context.Float(bounds[i], 0));
    }
    while (operands.size() > 1 && operands.back() == nullptr) operands.pop_back();
    if (operands.size() > 1) return context.AddNode(OpKind::kClip, std::move(operands));
    context.SetOutput(0, x);
    return {};
  }

  static InferResult Infer(const InferContext& context) {
    FUSEC_TRY(CheckDtype(context, 0, kNumbers));
    for (int i = 1; i < 3; ++i) {
      if (!context.has_operand(i)) continue;
      FUSEC_TRY(CheckSameDtype(context, 0, i));
      if (!context.operand(i).ElementCount().IsConstant(1)) {
        return ModelError("bound is " + context.operand(i).ToString() + ", expected one element");
      }
    }
    return std::vector<TensorType>{context.operand(0)};
  }

  template <class T>
  static T Clip(const ReferenceContext& context, T x) {
    if (context.has_input(1)) {
      const T low = ReadElement<T>(context.input(1), 0);
      x = x < low ? low : x;
    }
    if (!context.has_input(2)) return x;
    const T high = ReadElement<T>(context.input(2), 0);
    return x > high ? high : x;
  }

  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& x = context.input(0);
    ReferenceTensor& result = context.output();
    for (int64_t i = 0; i < x.element_count(); ++i) {
      if (IsFloat(x.dtype)) result.reals[i] = Clip<double>(context, x.reals[i]);
      else if (!IsUnsigned(x.dtype)) result.ints[i] = Clip<int64_t>(context, x.ints[i]);
      else result.ints[i] = static_cast<int64_t>(Clip<uint64_t>(context, x.ints[i]));
    }
    return {};
  }

  static Scalar Lower(LowerContext& context) {
    const Node& node = context.node();
    const Dtype dtype = node.operand(0)->type.dtype;
    const FormulaContext formula_context(context, dtype);
    Scalar x = context.Load(0, context.index());
    const char* formulas[] = {"{0} < {1} ? {1} : {0}", "{0} > {1} ? {1} : {0}"};
    for (int i = 1; i < 3; ++i) {
      if (node.operand(i) == nullptr) continue;
      const Exprs origin(node.operand(i)->type.shape.size(), Expr(0));
      const Scalar bound = context.Load(i, origin);
      x = context.Let(FillFormula(formulas[i - 1], {x, bound}, formula_context), dtype);
    }
    return x;
  }
};

// Bits that are shifted out are lost, so that a shift by the width or more gives 0 (undefined in
// C). A right shift of a signed integer fills with the sign; a shift by less than 0 is one by the
// width or more.
struct BitShiftOp : Pointwise<BitShiftOp, OpKind::kBitShift, kInts> {
  static constexpr AttributeSpec kAttributes[] = {{"direction", "LEFT|RIGHT"}};
  static Result<void> Import(ImportContext& context) {
    const std::string direction = context.String("direction", "");
    if (direction != "LEFT" && direction != "RIGHT") {
      return context.Fail("direction is \"" + direction + "\", expected \"LEFT\" or \"RIGHT\"");
    }
    return context.AddNode(OpKind::kBitShift, Inputs(context), {{"direction", direction}});
  }
  static bool IsLeft(const Node& node) { return node.Get<std::string>("direction") == "LEFT"; }
  template <class T>
  static T Apply(T x, T bits, const Node& node) {
    constexpr uint64_t kWidest = 64;
    const bool leaves_bits = static_cast<uint64_t>(bits) < kWidest;
    if (IsLeft(node)) return leaves_bits ? static_cast<T>(static_cast<uint64_t>(x) << bits) : T(0);
    if (std::is_unsigned_v<T>) return leaves_bits ? x >> bits : T(0);
    return x >> (leaves_bits ? bits : static_cast<T>(kWidest - 1));
  }
  static std::string Formula(FormulaContext& context) {
    if (!context.is_unsigned()) {
      context.Use("bit_shift.cuh");
      return IsLeft(context.node) ? "ShiftLeft<{type}>({0}, {1})" : "ShiftRight<{type}>({0}, {1})";
    }
    const std::string width = std::to_string(8 * DtypeBytes(context.dtype));
    const char* shift = IsLeft(context.node) ? "<<" : ">>";
    return "{1} < " + width + " ? {0} " + shift + " {1} : 0";
  }
};

struct BitwiseAndOp : Pointwise<BitwiseAndOp, OpKind::kBitwiseAnd, kInts> {
  template <class T>
  static T Apply(T a, T b) { return a & b; }
  static std::string Formula(FormulaContext&) { return "{0} & {1}"; }
};

struct BitwiseOrOp : Pointwise<BitwiseOrOp, OpKind::kBitwiseOr, kInts> {
  template <class T>
  static T Apply(T a, T b) { return a | b; }
  static std::string Formula(FormulaContext&) { return "{0} | {1}"; }
};

struct BitwiseXorOp : Pointwise<BitwiseXorOp, OpKind::kBitwiseXor, kInts> {
  template <class T>
  static T Apply(T a, T b) { return a ^ b; }
  static std::string Formula(FormulaContext&) { return "{0} ^ {1}"; }
};

struct BitwiseNotOp : Pointwise<BitwiseNotOp, OpKind::kBitwiseNot, kInts> {
  template <class T>
  static T Apply(T x) { return ~x; }
  static std::string Formula(FormulaContext&) { return "~{0}"; }
};

}  // namespace

FUSEC_DEFINE_OP(Abs)
FUSEC_DEFINE_OP(Add)
FUSEC_DEFINE_OP(BitShift)
FUSEC_DEFINE_OP(BitwiseAnd)
FUSEC_DEFINE_OP(BitwiseNot)
FUSEC_DEFINE_OP(BitwiseOr)
FUSEC_DEFINE_OP(BitwiseXor)
FUSEC_DEFINE_OP(Ceil)
FUSEC_DEFINE_OP(Clip)
FUSEC_DEFINE_OP(Div)
FUSEC_DEFINE_OP(Floor)
FUSEC_DEFINE_OP(Max)
FUSEC_DEFINE_OP(Min)
FUSEC_DEFINE_OP(Mod)
FUSEC_DEFINE_OP(Mul)
FUSEC_DEFINE_OP(Neg)
FUSEC_DEFINE_OP(Reciprocal)
FUSEC_DEFINE_OP(Round)
FUSEC_DEFINE_OP(Sign)
FUSEC_DEFINE_OP(Sub)

}  // namespace fusec
