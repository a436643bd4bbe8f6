#include "compiler/ops/pointwise.h"

namespace fusec {
namespace {

// A comparison with NaN is false.
struct EqualOp : Pointwise<EqualOp, OpKind::kEqual, kAnyDtype> {
  static constexpr bool kGivesBool = true;
  template <class T>
  static bool Apply(T a, T b) { return a == b; }
  static std::string Formula(FormulaContext&) { return "{0} == {1}"; }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    const ArrayRef<Expr> x = context.operands;
    return SymbolicEqual(x[0], x[1], context.ranges);
  }
};

struct GreaterOp : Pointwise<GreaterOp, OpKind::kGreater, kNumbers> {
  static constexpr bool kGivesBool = true;
  template <class T>
  static bool Apply(T a, T b) { return a > b; }
  static std::string Formula(FormulaContext&) { return "{0} > {1}"; }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    const ArrayRef<Expr> x = context.operands;
    return SymbolicLess(x[1], x[0], context.ranges);
  }
};

struct GreaterOrEqualOp : Pointwise<GreaterOrEqualOp, OpKind::kGreaterOrEqual, kNumbers> {
  static constexpr bool kGivesBool = true;
  template <class T>
  static bool Apply(T a, T b) { return a >= b; }
  static std::string Formula(FormulaContext&) { return "{0} >= {1}"; }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    const ArrayRef<Expr> x = context.operands;
    return SymbolicNot(SymbolicLess(x[0], x[1], context.ranges));
  }
};

struct LessOp : Pointwise<LessOp, OpKind::kLess, kNumbers> {
  static constexpr bool kGivesBool = true;
  template <class T>
  static bool Apply(T a, T b) { return a < b; }
  static std::string Formula(FormulaContext&) { return "{0} < {1}"; }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    const ArrayRef<Expr> x = context.operands;
    return SymbolicLess(x[0], x[1], context.ranges);
  }
};

struct LessOrEqualOp : Pointwise<LessOrEqualOp, OpKind::kLessOrEqual, kNumbers> {
  static constexpr bool kGivesBool = true;
  template <class T>
  static bool Apply(T a, T b) { return a <= b; }
  static std::string Formula(FormulaContext&) { return "{0} <= {1}"; }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    const ArrayRef<Expr> x = context.operands;
    return SymbolicNot(SymbolicLess(x[1], x[0], context.ranges));
  }
};

// Both operands are already computed, so && and || never skip an evaluation; they only read better
// than & and |.
struct AndOp : Pointwise<AndOp, OpKind::kAnd, kBools> {
  static bool Apply(bool a, bool b) { return a && b; }
  static std::string Formula(FormulaContext&) { return "{0} && {1}"; }
  // Operands are 0 or 1.
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    const ArrayRef<Expr> x = context.operands;
    return Min(x[0], x[1], context.ranges);
  }
};

struct OrOp : Pointwise<OrOp, OpKind::kOr, kBools> {
  static bool Apply(bool a, bool b) { return a || b; }
  static std::string Formula(FormulaContext&) { return "{0} || {1}"; }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    const ArrayRef<Expr> x = context.operands;
    return Max(x[0], x[1], context.ranges);
  }
};

struct XorOp : Pointwise<XorOp, OpKind::kXor, kBools> {
  static bool Apply(bool a, bool b) { return a != b; }
  static std::string Formula(FormulaContext&) { return "{0} != {1}"; }
};

struct NotOp : Pointwise<NotOp, OpKind::kNot, kBools> {
  static bool Apply(bool x) { return !x; }
  static std::string Formula(FormulaContext&) { return "!{0}"; }
  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    return SymbolicNot(context.operands[0]);
  }
};

struct IsNaNOp : Pointwise<IsNaNOp, OpKind::kIsNaN, kFloats> {
  static constexpr bool kGivesBool = true;
  static bool Apply(double x) { return std::isnan(x); }
  static std::string Formula(FormulaContext&) { return "{0} != {0}"; }
};

// detect_negative and detect_positive select which infinities count.
struct IsInfOp : Pointwise<IsInfOp, OpKind::kIsInf, kFloats> {
  static constexpr AttributeSpec kAttributes[] = {{"detect_negative", "int"},
                                                  {"detect_positive", "int"}};
  static constexpr bool kGivesBool = true;
  static Result<void> Import(ImportContext& context) {
    return context.AddNode(OpKind::kIsInf, Inputs(context),
                           {{"detect_negative", context.Int("detect_negative", 1)},
                            {"detect_positive", context.Int("detect_positive", 1)}});
  }
  static bool Apply(double x, const Node& node) {
    return std::isinf(x) && node.Int(x < 0 ? "detect_negative" : "detect_positive") != 0;
  }
  static std::string Formula(FormulaContext& context) {
    const bool negative = context.node.Int("detect_negative") != 0;
    const bool positive = context.node.Int("detect_positive") != 0;
    const std::string infinity = CLiteral(HUGE_VAL, context.dtype);
    if (negative && positive) return "fabs{f}({0}) == " + infinity;
    if (positive) return "{0} == " + infinity;
    return negative ? "{0} == -" + infinity : "false";
  }
};

// condition ? a : b, broadcasting all three.
struct WhereOp {
  static Result<void> Import(ImportContext& context) {
    return context.AddNode(OpKind::kWhere, Inputs(context));
  }

  static InferResult Infer(const InferContext& context) {
    FUSEC_TRY(CheckDtype(context, 0, kBools));
    const Dtype dtype = context.operand(1).dtype;
    FUSEC_TRY(CheckSameDtype(context, 1, 2));
    FUSEC_ASSIGN(Shape shape,
                 BroadcastShapes({context.operand(0).shape, context.operand(1).shape,
                                  context.operand(2).shape}));
    return std::vector<TensorType>{{dtype, std::move(shape)}};
  }

  static Result<void> Reference(ReferenceContext& context) {
    ReferenceTensor& result = context.output();
    ForEachBroadcast(context, [&](int64_t i, ArrayRef<int64_t> positions) {
      const int chosen = context.input(0).ints[positions[0]] != 0 ? 1 : 2;
      const ReferenceTensor& source = context.input(chosen);
      if (IsFloat(result.dtype))
        result.reals[i] = source.reals[positions[chosen]];
      else
        result.ints[i] = source.ints[positions[chosen]];
    });
    return {};
  }

  static Scalar Lower(LowerContext& context) {
    const Dtype dtype = context.node().operand(1)->type.dtype;
    const Scalar condition = LoadBroadcast(context, 0);
    const Scalar a = LoadBroadcast(context, 1);
    if (condition.text() == "true") return context.Let(a.text(), dtype);  // the planner knows it
    const Scalar b = LoadBroadcast(context, 2);
    return context.Let(condition.text() + " ? " + a.text() + " : " + b.text(), dtype);
  }

  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    const ArrayRef<Expr> x = context.operands;
    const std::optional<int64_t> condition = x[0].AsConstant();
    if (!condition) return std::nullopt;
    return *condition != 0 ? x[1] : x[2];
  }

  static std::optional<Expr> OperandLimit(const LimitContext& context) {
    if (context.operand == 0) return std::nullopt;
    return context.limit;
  }
};

}  // namespace

FUSEC_DEFINE_OP(And)
FUSEC_DEFINE_OP(Equal)
FUSEC_DEFINE_OP(Greater)
FUSEC_DEFINE_OP(GreaterOrEqual)
FUSEC_DEFINE_OP(IsInf)
FUSEC_DEFINE_OP(IsNaN)
FUSEC_DEFINE_OP(Less)
FUSEC_DEFINE_OP(LessOrEqual)
FUSEC_DEFINE_OP(Not)
FUSEC_DEFINE_OP(Or)
FUSEC_DEFINE_OP(Where)
FUSEC_DEFINE_OP(Xor)

}  // namespace fusec
