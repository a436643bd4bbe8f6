#include <bit>
#include <limits>

#include "compiler/ops/narrow_rounding.h"
#include "compiler/ops/pointwise.h"

namespace fusec {

// Floats are converted to `int` or `long long`, saturating there (NaN gives 0), and the result is
// then wrapped to the dtype: -1.0 becomes 255 in u8. C compilers for x86 and NumPy do the same,
// although C++ leaves it undefined.
int64_t TruncateReal(double value, Dtype dtype) {
  if (std::isnan(value)) return 0;
  if (dtype == Dtype::kU64 && value >= 0x1p63) {
    return static_cast<int64_t>(value >= 0x1p64 ? ~0ULL : static_cast<uint64_t>(value));
  }
  const bool through_long = dtype == Dtype::kI64 || dtype == Dtype::kU64 || dtype == Dtype::kU32;
  const double limit = through_long ? 0x1p63 : 0x1p31;
  if (value >= limit) {
    return through_long ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max();
  }
  return static_cast<int64_t>(value < -limit ? -limit : value);
}

double ToReal(const ReferenceTensor& tensor, int64_t i) {
  if (tensor.dtype != Dtype::kU64) return tensor.Real(i);
  return static_cast<double>(static_cast<uint64_t>(tensor.ints[i]));
}

namespace {

std::string CastFloatToInt(LowerContext& context, const std::string& value, Dtype to) {
  context.Use("truncate.cuh");
  switch (to) {
    case Dtype::kI32: return "TruncateToInt(" + value + ")";
    case Dtype::kI64: return "TruncateToLong(" + value + ")";
    case Dtype::kU64: return "TruncateToUnsignedLong(" + value + ")";
    case Dtype::kU32: return "(unsigned)TruncateToLong(" + value + ")";
    default: return "(" + CTypeName(to) + ")TruncateToInt(" + value + ")";
  }
}

}  // namespace

Scalar LowerCast(LowerContext& context, const Scalar& value, Dtype to) {
  const Dtype from = value.dtype;
  if (from == to) return value;
  const bool same_local = CTypeName(from) == CTypeName(to);
  if (to == Dtype::kBool) return context.Let(value.text() + " != " + CLiteral(0, from), to);
  if (to == Dtype::kF16 || to == Dtype::kBF16) {
    context.Use("half.cuh");
    const char* round = to == Dtype::kF16 ? "RoundToHalf(" : "RoundToBFloat16(";
    std::string x = (same_local ? "" : "(float)") + value.text();
    if (from == Dtype::kF64) {
      context.Use("round_to_odd.cuh");
      x = "RoundToOdd(" + value.text() + ")";
    }
    return context.Let(round + x + ")", to);
  }
  if (same_local) return {value.value, to};  // f16 and bf16 are floats already
  if (IsFloat(from) && !IsFloat(to))
    return context.Let(CastFloatToInt(context, value.text(), to), to);
  return context.Let("(" + CTypeName(to) + ")" + value.text(), to);
}

namespace {

// Floats are truncated to integers, integers wrap, and as bool everything but zero is true.
struct CastOp {
  static constexpr AttributeSpec kAttributes[] = {{"to", "dtype"}};
  static constexpr bool kKeepsOrder = true;
  static Result<void> Import(ImportContext& context) {
    Value* x = context.input(0);
    const bool is_like = context.onnx_op() == "CastLike";
    if (const auto narrow = is_like ? context.Narrow(1) : context.Narrow("to"))
      return ImportNarrowCast(context, *narrow);
    Dtype to = Dtype::kF32;
    if (is_like) {
      to = context.input(1)->type.dtype;
    } else {
      FUSEC_ASSIGN(to, context.Type("to", Dtype::kF32));
    }
    if (x->type.dtype != to) return context.AddNode(OpKind::kCast, {x}, {{"to", to}});
    // A result of its own, because the type of a narrow operand belongs to its value.
    if (context.Narrow(0)) return context.AddNode(OpKind::kIdentity, {x});
    context.SetOutput(0, x);
    return {};
  }

  static InferResult Infer(const InferContext& context) {
    const Dtype to = std::get<Dtype>(context.attributes.at("to"));
    return std::vector<TensorType>{{to, context.operand(0).shape}};
  }

  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& x = context.input(0);
    ReferenceTensor& result = context.output();
    const Dtype to = result.dtype;
    // Widening does not round: the interpreter's value is more precise than the operand's dtype.
    const bool widens = IsFloat(x.dtype) && IsFloat(to) && DtypeBytes(to) > DtypeBytes(x.dtype);
    const int64_t count = x.element_count();
    if (IsFloat(to) && IsFloat(x.dtype)) {
      for (int64_t i = 0; i < count; ++i)
        result.reals[i] = widens ? x.reals[i] : RoundedTo(to, x.reals[i]);
    } else if (IsFloat(to)) {
      for (int64_t i = 0; i < count; ++i) result.reals[i] = RoundedTo(to, ToReal(x, i));
    } else if (IsFloat(x.dtype)) {
      for (int64_t i = 0; i < count; ++i)
        result.ints[i] = to == Dtype::kBool ? x.reals[i] != 0 : TruncateReal(x.reals[i], to);
    } else {
      result.ints = x.ints;
    }
    result.WrapInts();
    return {};
  }

  static Scalar Lower(LowerContext& context) {
    const Scalar x = context.Load(0, context.index());
    return LowerCast(context, x, context.node().result()->type.dtype);
  }

  static std::optional<Expr> Symbolic(const SymbolicContext& context) {
    const Expr& x = context.operands[0];
    if (context.node.result()->type.dtype != Dtype::kBool) return x;
    return SymbolicNot(SymbolicEqual(x, Expr(0), context.ranges));
  }

  static std::optional<Expr> OperandLimit(const LimitContext& context) { return context.limit; }
};

// The bits of a float as an integer of the same width.
int64_t BitsOf(Dtype dtype, double value) {
  switch (dtype) {
    case Dtype::kF16: return DoubleToHalf(value);
    case Dtype::kBF16: return DoubleToBFloat16(value);
    case Dtype::kF32: return std::bit_cast<int32_t>(static_cast<float>(value));
    default: return std::bit_cast<int64_t>(value);
  }
}

double FloatOfBits(Dtype dtype, int64_t bits) {
  switch (dtype) {
    case Dtype::kF16: return HalfToDouble(static_cast<uint16_t>(bits));
    case Dtype::kBF16: return BFloat16ToDouble(static_cast<uint16_t>(bits));
    case Dtype::kF32: return std::bit_cast<float>(static_cast<uint32_t>(bits));
    default: return std::bit_cast<double>(bits);
  }
}

// Names of the functions that convert a float to an integer of the same bits, and back.
struct BitFunctions {
  const char *to_bits, *from_bits;
  Dtype bits;
};
BitFunctions BitFunctionsOf(Dtype real) {
  switch (real) {
    case Dtype::kF16: return {"HalfBits", "FloatOfHalfBits", Dtype::kU16};
    case Dtype::kBF16: return {"BFloat16Bits", "FloatOfBFloat16Bits", Dtype::kU16};
    case Dtype::kF32: return {"__float_as_int", "__int_as_float", Dtype::kI32};
    default: return {"__double_as_longlong", "__longlong_as_double", Dtype::kI64};
  }
}

// Reinterprets the bits of an element as another dtype of the same width.
struct BitCastOp {
  static constexpr AttributeSpec kAttributes[] = {{"to", "dtype"}};
  static Result<void> Import(ImportContext& context) {
    Value* x = context.input(0);
    FUSEC_ASSIGN(const Dtype to, context.Type("to", x->type.dtype));
    if (x->type.dtype != to) return context.AddNode(OpKind::kBitCast, {x}, {{"to", to}});
    context.SetOutput(0, x);
    return {};
  }

  static InferResult Infer(const InferContext& context) {
    const Dtype from = context.operand(0).dtype, to = std::get<Dtype>(context.attributes.at("to"));
    if (DtypeBytes(from) != DtypeBytes(to)) {
      return ModelError(std::string(DtypeName(from)) + " and " + std::string(DtypeName(to)) +
                        " differ in width, expected dtypes of the same width");
    }
    return std::vector<TensorType>{{to, context.operand(0).shape}};
  }

  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& x = context.input(0);
    ReferenceTensor& result = context.output();
    const Dtype to = result.dtype;
    for (int64_t i = 0; i < x.element_count(); ++i) {
      const int64_t bits = IsFloat(x.dtype) ? BitsOf(x.dtype, x.reals[i]) : x.ints[i];
      if (IsFloat(to)) {
        result.reals[i] = FloatOfBits(to, bits);
      } else {
        result.ints[i] = to == Dtype::kBool ? bits != 0 : bits;
      }
    }
    result.WrapInts();
    return {};
  }

  static Scalar Lower(LowerContext& context) {
    Scalar x = context.Load(0, context.index());
    const Dtype to = context.node().result()->type.dtype;
    if (DtypeBytes(to) == 2) context.Use("half.cuh");
    const auto call = [&](const char* function, const Scalar& bits, Dtype dtype) {
      return context.Let(std::string(function) + "(" + bits.text() + ")", dtype);
    };
    if (IsFloat(x.dtype)) {
      const BitFunctions from = BitFunctionsOf(x.dtype);
      x = call(from.to_bits, x, from.bits);
    }
    if (!IsFloat(to)) return LowerCast(context, x, to);
    const BitFunctions as = BitFunctionsOf(to);
    return call(as.from_bits, LowerCast(context, x, as.bits), to);
  }
};

}  // namespace

FUSEC_DEFINE_OP(BitCast)
FUSEC_DEFINE_OP(Cast)

}  // namespace fusec
