#pragma once

#include "compiler/import/contrib/contrib_op.h"

namespace fusec {

// Adds the statements of Attention and QAttention behind the projection: `projected` [batch,
// sequence, widths of queries, keys and values] of the input `input`. `weights` is the input whose
// columns it has, and `bias` an input that is added to the scores if the node has it, or null.
Result<void> AttendTo(Statements& s, const ContribNode& node, const std::string& projected,
                      const char* weights, const char* bias);

// The body of GroupQueryAttention (group_query_attention.cc).
Result<std::string> GroupQueryAttention(const ContribNode& node);

}  // namespace fusec
