#pragma once

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "compiler/import/import_context.h"
#include "compiler/ir/c_text.h"
#include "compiler/ops/define_op.h"
#include "compiler/reference/reference_context.h"
#include "compiler/support/adt.h"

namespace fusec {

// Sets of dtypes, one bit each.
using DtypeSet = uint32_t;
constexpr DtypeSet BitOf(Dtype dtype) { return 1u << static_cast<int>(dtype); }
inline constexpr DtypeSet kFloats =
    BitOf(Dtype::kF32) | BitOf(Dtype::kF16) | BitOf(Dtype::kBF16) | BitOf(Dtype::kF64);
inline constexpr DtypeSet kSignedInts =
    BitOf(Dtype::kI8) | BitOf(Dtype::kI16) | BitOf(Dtype::kI32) | BitOf(Dtype::kI64);
inline constexpr DtypeSet kUnsignedInts =
    BitOf(Dtype::kU8) | BitOf(Dtype::kU16) | BitOf(Dtype::kU32) | BitOf(Dtype::kU64);
inline constexpr DtypeSet kInts = kSignedInts | kUnsignedInts;
inline constexpr DtypeSet kNumbers = kFloats | kInts;
inline constexpr DtypeSet kBools = BitOf(Dtype::kBool);
inline constexpr DtypeSet kAnyDtype = kNumbers | kBools;

// A float attribute and the value that ONNX gives it by default.
struct AttributeDefault {
  const char* name;
  float value;
};

// What the Formula of an op may use. `dtype` is that of the operands.
class FormulaContext {
 public:
  FormulaContext(LowerContext& lower, Dtype dtype)
      : node(lower.node()), dtype(dtype), lower_(lower) {}
  void Use(const char* device_file) { lower_.Use(device_file); }
  bool is_float() const { return IsFloat(dtype); }
  bool is_unsigned() const { return IsUnsigned(dtype); }

  const Node& node;
  const Dtype dtype;

 private:
  LowerContext& lower_;
};

// `formula` with its placeholders filled in: {0} {1} ... operands; {alpha} a float attribute as a literal; {zero} {one} literals of the
// dtype; {f} the suffix of C's float functions and literals ("f", or "" for f64); {type} the C type of a local.
std::string FillFormula(const std::string& formula, ArrayRef<Scalar> operands,
                        const FormulaContext& context);

// The parts of the template Pointwise that do not depend on the op.
ValueList Inputs(const ImportContext& context);
Result<void> ImportPointwise(ImportContext& context, OpKind kind,
                             ArrayRef<AttributeDefault> defaults);
InferResult InferPointwise(const InferContext& context, DtypeSet dtypes, bool gives_bool);
Result<void> CheckDtype(const InferContext& context, int operand, DtypeSet dtypes);
Result<void> CheckSameDtype(const InferContext& context, int operand, int other);
Scalar LowerPointwise(LowerContext& context, std::string (*formula)(FormulaContext&),
                      bool gives_bool);
// Loads the element of an operand that broadcasts to the element being lowered.
Scalar LoadBroadcast(LowerContext& context, int operand);

// Symbolic results of comparisons: 0 or 1, or nullopt if neither is proven.
std::optional<Expr> SymbolicEqual(const Expr& a, const Expr& b, const Ranges& ranges);
std::optional<Expr> SymbolicLess(const Expr& a, const Expr& b, const Ranges& ranges);
std::optional<Expr> SymbolicNot(const std::optional<Expr>& truth);

// Converts `value` to another dtype by the rules of Cast; TruncateReal and ToReal are the same
// conversions for Reference.
Scalar LowerCast(LowerContext& context, const Scalar& value, Dtype to);
int64_t TruncateReal(double value, Dtype dtype);
double ToReal(const ReferenceTensor& tensor, int64_t i);

// Consecutive elements of the result: element number `result` + i is computed from element
// positions[k] + i * steps[k] of operand k.
struct BroadcastRun {
  int64_t result = 0, count = 0;
  ArrayRef<int64_t> positions, steps;
};
// Visits the result in runs that are as long as possible.
void ForEachRun(const ReferenceContext& context, function_ref<void(const BroadcastRun&)> visit);
// Visits every element of the result, with its position and the positions of the operand elements
// that broadcast to it.
void ForEachBroadcast(const ReferenceContext& context,
                      function_ref<void(int64_t result, ArrayRef<int64_t>)> visit);

template <class T>
T ReadElement(const ReferenceTensor& tensor, int64_t i) {
  if constexpr (std::is_same_v<T, double>) return tensor.reals[i];
  else return static_cast<T>(tensor.ints[i]);
}

// An op that computes one element from one element of each operand. All operands have one dtype and
// broadcast.
// `Op` defines
//   Apply        the scalar function: Apply(x), Apply(x, node), Apply(a, b) or Apply(a, b, node).
//                It is a template, or for double only; its argument type is double for all
//                floats, else int64_t, uint64_t or bool
//   Formula      the same as C text
//   kGivesBool   (optional) whether the result is a bool
//   kDefaults    (optional) its float attributes
//   kAttributes  (optional) its other attributes
//   Symbolic, OperandLimit, kKeepsOrder  (optional) see IntegerFacts
// A binary op with more than two operands folds them from the left; with one operand it returns
// that operand. Members of `Op` hide those of this base.
template <class Op, OpKind kKind, DtypeSet kDtypes>
struct Pointwise {
  static constexpr bool kGivesBool = false;

  static Result<void> Import(ImportContext& context) {
    std::vector<AttributeDefault> defaults;
    if constexpr (requires { Op::kDefaults; }) {
      defaults.assign(std::begin(Op::kDefaults), std::end(Op::kDefaults));
    }
    return ImportPointwise(context, kKind, defaults);
  }

  static InferResult Infer(const InferContext& context) {
    return InferPointwise(context, kDtypes, Op::kGivesBool);
  }

  static Result<void> Reference(ReferenceContext& context) {
    const Dtype dtype = context.input(0).dtype;
    if constexpr ((kDtypes & kFloats) != 0) {
      if (IsFloat(dtype)) Evaluate<double>(context);
    }
    if constexpr ((kDtypes & kSignedInts) != 0) {
      if (IsInteger(dtype) && !IsUnsigned(dtype)) Evaluate<int64_t>(context);
    }
    if constexpr ((kDtypes & kUnsignedInts) != 0) {
      if (IsUnsigned(dtype)) Evaluate<uint64_t>(context);
    }
    if constexpr ((kDtypes & kBools) != 0) {
      if (dtype == Dtype::kBool) Evaluate<bool>(context);
    }
    context.output().WrapInts();
    return {};
  }

  static Scalar Lower(LowerContext& context) {
    return LowerPointwise(context, &Op::Formula, Op::kGivesBool);
  }

 private:
  template <class T>
  static void Evaluate(ReferenceContext& context) {
    ReferenceTensor& result = context.output();
    ForEachRun(context, [&](const BroadcastRun& run) {
      for (int64_t i = 0; i < run.count; ++i) {
        const auto value = Fold<T>(context, run, i);
        if (IsFloat(result.dtype))
          result.reals[run.result + i] = static_cast<double>(value);
        else
          result.ints[run.result + i] = static_cast<int64_t>(value);
      }
    });
  }

  template <class T>
  static auto Fold(const ReferenceContext& context, const BroadcastRun& run, int64_t element) {
    const auto read = [&](size_t operand) {
      return ReadElement<T>(context.input(static_cast<int>(operand)),
                            run.positions[operand] + element * run.steps[operand]);
    };
    const auto x = read(0);
    if constexpr (requires { Op::Apply(x); }) {
      return Op::Apply(x);
    } else if constexpr (requires { Op::Apply(x, context.node); }) {
      return Op::Apply(x, context.node);
    } else {
      auto combine = [&](T a, T b) {
        if constexpr (requires { Op::Apply(a, b); }) return Op::Apply(a, b);
        else return Op::Apply(a, b, context.node);
      };
      if constexpr (Op::kGivesBool) {
        return combine(x, read(1));
      } else {
        T value = x;
        for (size_t i = 1; i < run.positions.size(); ++i) value = combine(value, read(i));
        return value;
      }
    }
  }
};

}  // namespace fusec
