// Conversions of values that are stored in fewer bits than they are computed in, such as rows of
// quantized tables.
#include <fmt/format.h>

#include <cmath>

#include "compiler/ops/define_op.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

Result<void> CheckBytes(const TensorType& stored) {
  if (stored.dtype == Dtype::kU8) return {};
  return ModelError(fmt::format("the stored values are {}, expected u8", stored.ToString()));
}

}  // namespace

// Converts E4M3 codes (dtype.h) to f32.
struct FromE4M3Op {
  static InferResult Infer(const InferContext& context) {
    FUSEC_TRY(CheckBytes(context.operand(0)));
    return std::vector<TensorType>{{Dtype::kF32, context.operand(0).shape}};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& stored = context.input(0);
    for (int64_t i = 0; i < stored.element_count(); ++i)
      context.output().reals[i] = E4M3ToDouble(static_cast<uint8_t>(stored.ints[i]));
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    context.Use("float8.cuh");
    const Scalar stored = context.Load(0, context.index());
    return context.Let("FromE4M3(" + stored.text() + ")", Dtype::kF32);
  }
};
FUSEC_DEFINE_OP(FromE4M3)

Result<void> CheckFloats(const TensorType& x) {
  if (x.dtype == Dtype::kF32) return {};
  return ModelError(fmt::format("the numbers are {}, expected f32", x.ToString()));
}

// Converts f32 to E4M3 codes, rounding to nearest; magnitudes above 448 saturate to 448.
struct ToE4M3Op {
  static InferResult Infer(const InferContext& context) {
    FUSEC_TRY(CheckFloats(context.operand(0)));
    return std::vector<TensorType>{{Dtype::kU8, context.operand(0).shape}};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& x = context.input(0);
    for (int64_t i = 0; i < x.element_count(); ++i)
      context.output().ints[i] = DoubleToE4M3(x.reals[i]);
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    context.Use("float8.cuh");
    const Scalar x = context.Load(0, context.index());
    return context.Let("ToE4M3(" + x.text() + ")", Dtype::kU8, "code");
  }
};
FUSEC_DEFINE_OP(ToE4M3)

// Float8Factor of each element's magnitude.
struct Float8FactorOp {
  static InferResult Infer(const InferContext& context) {
    FUSEC_TRY(CheckFloats(context.operand(0)));
    return std::vector<TensorType>{context.operand(0)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& x = context.input(0);
    for (int64_t i = 0; i < x.element_count(); ++i)
      context.output().reals[i] = Float8Factor(std::abs(x.reals[i]));
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    context.Use("float8.cuh");
    const Scalar x = context.Load(0, context.index());
    return context.Let("Float8Factor(" + x.text() + ")", Dtype::kF32, "factor");
  }
};
FUSEC_DEFINE_OP(Float8Factor)

// result[i.., c] = the low (c even) or high (c odd) 4 bits of stored[i.., c / 2]; the last axis has
// `columns` elements.
struct UnpackInt4Op {
  static constexpr AttributeSpec kAttributes[] = {{"columns", "int"}};
  static InferResult Infer(const InferContext& context) {
    const TensorType& stored = context.operand(0);
    FUSEC_TRY(CheckBytes(stored));
    const int64_t columns = context.Int("columns");
    if (stored.rank() == 0 || columns < 0 || stored.shape.back() != Expr((columns + 1) / 2)) {
      return ModelError(
          fmt::format("{} columns of 4 bits do not lie in {}", columns, stored.ToString()));
    }
    TensorType result = stored;
    result.shape.back() = columns;
    return std::vector<TensorType>{std::move(result)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const std::vector<int64_t>& bytes = context.input(0).ints;
    std::vector<int64_t>& codes = context.output().ints;
    const int64_t columns = context.output().dims.back(), row = (columns + 1) / 2;
    for (size_t i = 0; i < codes.size(); ++i) {
      const int64_t column = static_cast<int64_t>(i) % columns;
      const int64_t byte = bytes[static_cast<int64_t>(i) / columns * row + column / 2];
      codes[i] = column % 2 != 0 ? byte >> 4 : byte & 15;
    }
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    const Expr& column = context.index().back();
    Exprs source = context.index();
    source.back() = FloorDiv(column, 2, context.ranges());
    const Scalar byte = context.Load(0, source);
    context.Use("int4.cuh");
    const Scalar place = context.DataFromIndex(column, Dtype::kI64);
    return context.Let(fmt::format("Int4At({}, {})", byte.text(), place.text()), Dtype::kU8,
                       "code");
  }
};
FUSEC_DEFINE_OP(UnpackInt4)

}  // namespace fusec
