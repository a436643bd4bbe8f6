// Views that choose between operands, or between an operand and a constant, by position: concat,
// trilu.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/define_op.h"
#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/view_support.h"

namespace fusec {

// Concatenates the operands along `axis`.
struct ConcatOp {
  static constexpr AttributeSpec kAttributes[] = {{"axis", "int"}};
  static Result<void> Import(ImportContext& context) {
    ValueList operands;
    for (int i = 0; i < context.input_count(); ++i) operands.push_back(context.input(i));
    FUSEC_ASSIGN(const int64_t axis,
                 ImportAxis(context, context.Int("axis", 0), operands[0]->type.rank()));
    return context.AddNode(OpKind::kConcat, std::move(operands), {{"axis", axis}});
  }
  static InferResult Infer(const InferContext& context) {
    const int64_t axis = context.Int("axis");
    TensorType result = context.operand(0);
    FUSEC_TRY(CheckAxis(axis, result.rank()));
    for (size_t i = 1; i < context.operands.size(); ++i) {
      const TensorType& part = context.operand(static_cast<int>(i));
      const std::string problem = fmt::format("cannot join {} to {} along axis {}", part.ToString(),
                                              context.operand(0).ToString(), axis);
      if (part.dtype != result.dtype || part.rank() != result.rank()) return ModelError(problem);
      for (int a = 0; a < result.rank(); ++a) {
        if (a != axis && part.shape[a] != result.shape[a]) {
          return SizesDiffer(problem, part.shape[a], result.shape[a]);
        }
      }
      result.shape[axis] = result.shape[axis] + part.shape[axis];
    }
    return std::vector<TensorType>{std::move(result)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const int64_t axis = context.node.Int("axis");
    ReferenceTensor& result = context.output();
    const int64_t outer = CountElements(ArrayRef(result.dims).take_front(axis));
    const int64_t step = CountElements(ArrayRef(result.dims).drop_front(axis));
    int64_t offset = 0;
    for (size_t i = 0; i < context.node.operands.size(); ++i) {
      const ReferenceTensor& part = context.input(static_cast<int>(i));
      const int64_t own = CountElements(ArrayRef(part.dims).drop_front(axis));
      for (int64_t block = 0; block < outer; ++block)
        CopyElements(part, block * own, result, block * step + offset, own);
      offset += own;
    }
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    const int64_t axis = context.node().Int("axis");
    std::vector<int> parts;
    Exprs begins, ends;
    Expr end;
    for (size_t i = 0; i < context.node().operands.size(); ++i) {
      const Expr& extent = context.node().operands[i]->type.shape[axis];
      if (extent.IsConstant(0)) continue;
      parts.push_back(static_cast<int>(i));
      begins.push_back(end);
      end = end + extent;
      ends.push_back(end);
    }
    if (parts.empty()) return context.Load(0, context.index());
    return SelectAmong(context, context.index()[axis], ends, context.node().result()->type.dtype,
                       [&](int i) {
                         Exprs source = context.index();
                         source[axis] = source[axis] - begins[i];
                         return context.Load(parts[i], source);
                       });
  }
};
FUSEC_DEFINE_OP(Concat)

// Keeps the elements of every matrix (the last two axes) on and above its k-th diagonal (upper = 1:
// column - row >= k), or on and below it (upper = 0: column - row <= k); the others become zero.
struct TriluOp {
  static constexpr AttributeSpec kAttributes[] = {{"upper", "int"}, {"k", "int"}};
  static Result<void> Import(ImportContext& context) {
    int64_t k = 0;
    if (HasInput(context, 1)) {
      FUSEC_ASSIGN(const std::vector<int64_t> values, context.ConstantInts(1, "k"));
      if (values.size() != 1) {
        return context.Fail(fmt::format("k has {} values, expected 1", values.size()));
      }
      k = std::clamp(values[0], -kFar, kFar);
    }
    const int64_t upper = context.Int("upper", 1) != 0 ? 1 : 0;
    return context.AddNode(OpKind::kTrilu, {context.input(0)}, {{"upper", upper}, {"k", k}});
  }
  static InferResult Infer(const InferContext& context) {
    if (context.operand(0).rank() < 2) {
      return ModelError(
          fmt::format("the rank is {}, expected 2 or more", context.operand(0).rank()));
    }
    return std::vector<TensorType>{context.operand(0)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const bool upper = context.node.Int("upper") != 0;
    const int64_t k = context.node.Int("k");
    int64_t position = 0;
    ForEachIndex(context.input(0).dims, [&](ArrayRef<int64_t> index) {
      const int64_t diagonal = index[index.size() - 1] - index[index.size() - 2];
      if (upper ? diagonal >= k : diagonal <= k) {
        CopyElement(context.input(0), position, context.output(), position);
      }
      ++position;
    });
    return {};
  }
  static Scalar Lower(LowerContext& context) {
    const Exprs& index = context.index();
    const bool upper = context.node().Int("upper") != 0;
    const int64_t k = context.node().Int("k");
    const Dtype dtype = context.node().result()->type.dtype;
    const Expr diagonal = index[index.size() - 1] - index[index.size() - 2];
    const auto element = [&] { return context.Load(0, index); };
    const auto zero = [&] { return ZeroOf(dtype); };
    if (upper) return context.SelectBelow(diagonal, Expr(k), dtype, zero, element);
    return context.SelectBelow(diagonal, Expr(k + 1), dtype, element, zero);
  }

 private:
  static constexpr int64_t kFar = int64_t{1} << 40;  // beyond every dim, and k + 1 cannot overflow
};
FUSEC_DEFINE_OP(Trilu)

}  // namespace fusec
