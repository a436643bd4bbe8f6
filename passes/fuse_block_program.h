#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "passes/pass_manager.h"

namespace fusec {

// The largest matrix, in elements, that a block program multiplies all its rows by.
inline constexpr int64_t kMostSharedWeights = 2048;

// Makes one region of class "block_program" out of a chain of small matmuls and the ops between,
// before and after them. All values must share leading dims ("rows"), and a row's values must fit
// into a block's shared memory: attention, an interaction of embeddings, consecutive narrow layers.
//
//   %s = matmul(%q, %k)             f32[batch, heads, 16, 16]
//   %p = softmax's ops of %s                                       =>   one region,
//   %y = matmul(%p, %v)                                                 rows = dims[batch, heads]
//
// The pass does the same for reductions over different rows that feed each other, as in a
// factorization machine: sums over the fields of a concatenation, then over their elements. The
// concatenation stays in shared memory, and is also stored if other regions read it.
//
// Products by one matrix for all rows join if it has up to kMostSharedWeights elements, or if
// tensor cores make them for the many lines that each row has (FindSharedProduct), from weights
// that the block keeps beside its rows (PassOptions::block_shared_bytes); wider layers go to the
// library. An MLP on each item of a history with softmax over them, or all layers of attention over
// the fields of an example, so become one kernel. A group becomes a region only if that saves a
// launch, and if no value is read across rows.
Result<bool> FuseBlockProgram(Graph& graph, const PassOptions& options, PassReport& report);

// The nodes that it would make a region of around the product or reduction `seed`, if any.
std::optional<NodeSet> FindBlockProgram(const Graph& graph, const Node& seed,
                                        const PassOptions& options);

}  // namespace fusec
