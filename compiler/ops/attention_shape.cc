#include "compiler/ops/attention_shape.h"

#include <fmt/format.h>

#include "compiler/ir/op_def.h"

namespace fusec {
namespace {

// The sizes of one of q, k and v.
struct HeadShape {
  Expr batch, heads, length, size;
};

Result<HeadShape> HeadShapeOf(const char* name, const TensorType& type, int64_t heads) {
  if (!IsFloat(type.dtype)) {
    return ModelError(fmt::format("{} is {}, expected a float type", name, DtypeName(type.dtype)));
  }
  const Shape& shape = type.shape;
  if (type.rank() == 4) return HeadShape{shape[0], shape[1], shape[2], shape[3]};
  if (type.rank() != 3) {
    return ModelError(fmt::format("{} is {}, expected rank 3 or 4", name, type.ToString()));
  }
  if (heads < 1) {
    return ModelError(fmt::format("{} is {}, which needs q_num_heads and kv_num_heads of 1 or more",
                                  name, type.ToString()));
  }
  const Expr size = FloorDiv(shape[2], Expr(heads), Ranges());
  if (size * heads != shape[2]) {
    return ModelError(fmt::format("{} is {}, expected a last dim that divides by {} heads", name,
                                  type.ToString(), heads));
  }
  return HeadShape{shape[0], Expr(heads), shape[1], size};
}

Result<void> CheckEqual(const char* what, const Expr& found, const Expr& expected) {
  if (found == expected) return {};
  return ModelError(
      fmt::format("{} is {}, expected {}", what, found.ToString(), expected.ToString()));
}

Result<void> CheckType(const char* what, const TensorType& found, const TensorType& expected) {
  if (found == expected) return {};
  return ModelError(
      fmt::format("{} is {}, expected {}", what, found.ToString(), expected.ToString()));
}

}  // namespace

Result<AttentionShape> AttentionShape::Of(ArrayRef<const TensorType*> operands, int64_t q_heads,
                                          int64_t kv_heads) {
  const auto operand = [&](size_t i) { return i < operands.size() ? operands[i] : nullptr; };
  FUSEC_ASSIGN(const HeadShape q, HeadShapeOf("q", *operands[0], q_heads));
  FUSEC_ASSIGN(const HeadShape k, HeadShapeOf("k", *operands[1], kv_heads));
  FUSEC_ASSIGN(const HeadShape v, HeadShapeOf("v", *operands[2], kv_heads));
  if (operands[1]->rank() != operands[0]->rank() || operands[2]->rank() != operands[0]->rank()) {
    return ModelError(fmt::format("q, k and v have ranks {}, {} and {}, expected the same",
                                  operands[0]->rank(), operands[1]->rank(), operands[2]->rank()));
  }
  if (operands[1]->dtype != operands[0]->dtype) {
    return ModelError(fmt::format("q is {} and k is {}, expected the same type",
                                  DtypeName(operands[0]->dtype), DtypeName(operands[1]->dtype)));
  }
  FUSEC_TRY(CheckEqual("the batch of k", k.batch, q.batch));
  FUSEC_TRY(CheckEqual("the batch of v", v.batch, q.batch));
  FUSEC_TRY(CheckEqual("the head size of k", k.size, q.size));
  FUSEC_TRY(CheckEqual("the head count of v", v.heads, k.heads));
  FUSEC_TRY(CheckEqual("the length of v", v.length, k.length));

  AttentionShape s{q.batch, q.heads,  k.heads, q.length, k.length,
                   Expr(0), k.length, q.size,  v.size};
  s.packed = operands[0]->rank() == 3;
  if (q.heads != k.heads) {
    const std::optional<int64_t> of_q = q.heads.AsConstant();
    const std::optional<int64_t> of_k = k.heads.AsConstant();
    if (!of_q || !of_k || *of_k == 0 || *of_q % *of_k != 0) {
      return ModelError(fmt::format("q has {} heads, expected a multiple of the {} of k",
                                    q.heads.ToString(), k.heads.ToString()));
    }
    s.heads_per_group = *of_q / *of_k;
  }
  if ((operand(4) == nullptr) != (operand(5) == nullptr)) {
    return ModelError("only one of past_key and past_value is given, expected both or none");
  }
  if (operand(4) != nullptr) {
    if (operand(4)->rank() != 4) {
      return ModelError(fmt::format("past_key is {}, expected rank 4", operand(4)->ToString()));
    }
    s.past_length = operand(4)->shape[2];
    s.total_length = s.past_length + s.kv_length;
    FUSEC_TRY(CheckType("past_key", *operand(4),
                        {operands[1]->dtype, {s.batch, s.kv_heads, s.past_length, s.head_size}}));
    FUSEC_TRY(CheckType("past_value", *operand(5),
                        {operands[2]->dtype, {s.batch, s.kv_heads, s.past_length, s.v_head_size}}));
  }
  if (operand(6) != nullptr) {
    FUSEC_TRY(CheckType("nonpad_kv_seqlen", *operand(6), {Dtype::kI64, {s.batch}}));
  }
  return s;
}

Result<void> AttentionShape::CheckMask(const TensorType* mask, bool pads) const {
  if (mask == nullptr) return {};
  const Shape scores = {batch, q_heads, q_length, total_length};
  Shape shape = mask->shape;
  if (pads && !shape.empty()) shape.back() = total_length;
  const Result<Shape> broadcast = BroadcastShapes({scores, shape});
  const bool is_mask = mask->dtype == Dtype::kBool || IsFloat(mask->dtype);
  if (is_mask && !shape.empty() && broadcast && *broadcast == scores) return {};
  return ModelError(fmt::format("the mask is {}, expected bools or floats that broadcast to {}",
                                mask->ToString(), TensorType{mask->dtype, scores}.ToString()));
}

}  // namespace fusec
