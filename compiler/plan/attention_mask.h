#pragma once

#include <optional>

#include "compiler/kernel/kernel_builder.h"
#include "compiler/kernel/region_lowering.h"
#include "compiler/region/attention_parts.h"

namespace fusec {

// Writes the computation of the score at `index` of parts.score from the local `product`. Sets
// `reads_product` if the score depends on the product.
Scalar EvaluateScore(RegionLowering& lowering, const AttentionParts& parts, ArrayRef<Expr> index,
                     bool& reads_product);

// The number of ops that may act as masks: selects, additions of tensors to the scores, and
// multiplications of the weights by tensors. Scalars do not count.
int64_t CountMasks(const AttentionParts& parts);

// If `position < limit` has the form key - query_row + c < 0: the constant c; nullopt for other
// selects.
std::optional<Expr> DiagonalOf(const Expr& position, const Expr& limit, const Expr& key);

// The constant c (see DiagonalOf) of a causal mask, if all diagonals by which scores are selected
// are the same; else nullopt. A block has the locals query_row, key_row and head; `heads` is the
// number of heads.
std::optional<Expr> FindDiagonal(const Node& region, const AttentionParts& parts,
                                 KernelBuilder& builder, const Expr& heads);

}  // namespace fusec
