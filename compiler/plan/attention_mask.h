#pragma once

#include <optional>

#include "compiler/kernel/kernel_builder.h"
#include "compiler/kernel/region_lowering.h"
#include "compiler/region/attention_parts.h"

namespace fusec {

// The score that is made of the local `product`, at `index` of parts.score. Sets `reads_product` if
// it is made of it at all.
Scalar EvaluateScore(RegionLowering& lowering, const AttentionParts& parts, ArrayRef<Expr> index,
                     bool& reads_product);

// How often something hides scores from softmax, or makes zeros of weights: a choice, and what is
// added to scores or multiplies weights, if it is no scalar.
int64_t CountMasks(const AttentionParts& parts);

// `position < limit` as key - query_row + c < 0: the constant c; nullopt for other selects.
std::optional<Expr> DiagonalOf(const Expr& position, const Expr& limit, const Expr& key);

// Of the only diagonal that scores are selected by. A block knows the locals query_row, key_row and
// head, of `heads`.
std::optional<Expr> FindDiagonal(const Node& region, const AttentionParts& parts,
                                 KernelBuilder& builder, const Expr& heads);

}  // namespace fusec
