#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Elements of a matrix that many rows multiply by, in a block program.
inline constexpr int64_t kMostSharedWeights = 2048;

// Makes one region of class "block_program" out of a chain of small matmuls with what lies between,
// before and behind them, where all values share leading dims ("rows") and a row's values fit into
// a block's shared memory: attention, an interaction of embeddings, narrow layers in a row.
//
//   %s = matmul(%q, %k)            f32[batch, heads, 16, 16]
//   %p = softmax's ops of %s                                    =>   one region, rows = dims[batch,
//   heads] %y = matmul(%p, %v)
//
// So also reductions over unlike rows that meet, as in a factorization machine: sums over the
// fields of a concatenation, then over their elements. The concatenation is kept, and stored where
// others read it too.
//
// Products by one matrix for all rows join up to kMostSharedWeights: wider layers are the
// library's. A group becomes a region only if that saves a launch, and if no value is read across
// rows.
Result<bool> FuseBlockProgram(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
