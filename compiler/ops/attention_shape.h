#pragma once

#include <cstdint>

#include "compiler/ir/tensor.h"
#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

// The sizes of an attention op, derived from its operands (q, k, v, mask?, past_key?, past_value?,
// nonpad_length?).
struct AttentionShape {
  Expr batch, q_heads, kv_heads, q_length, kv_length, past_length, total_length;
  Expr head_size, v_head_size;
  int64_t heads_per_group = 1;  // query heads per head of k and v
  bool packed = false;          // q, k, v are [batch, length, heads * size] instead of rank 4

  // An error if the operands contradict each other. The head counts are only used for packed
  // operands.
  static Result<AttentionShape> Of(ArrayRef<const TensorType*> operands, int64_t q_heads,
                                   int64_t kv_heads);
  // An error unless the mask broadcasts to [batch, q_heads, q_length, total_length]. With `pads`
  // its last dim may be shorter.
  Result<void> CheckMask(const TensorType* mask, bool pads) const;
};

}  // namespace fusec
