#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "passes/pass_manager.h"

namespace fusec {

// The multiplications per row that a block program does for weights times a matrix of the row. A
// matmul kernel, which computes many rows at once on tensor cores, is faster for more.
inline constexpr int64_t kMostProductsByWeights = 1 << 16;

// The most elements that a matrix may have for a block program to multiply all its rows by it.
inline constexpr int64_t kMostSharedWeights = 2048;

// Makes one region of class "block_program" out of a chain of small matmuls and the ops between,
// before and after them. All values must share leading dims ("rows"), and the values of a row must
// fit into the shared memory of a thread block. Examples are small attention, an interaction of
// embeddings, and consecutive narrow layers.
//
//   %s = matmul(%q, %k)             f32[batch, heads, 16, 16]
//   %p = softmax's ops of %s                                       =>   one region,
//   %y = matmul(%p, %v)                                                 rows = dims[batch, heads]
//
// The pass does the same for reductions over different rows that feed each other, as in a
// factorization machine: sums over the fields of a concatenation, then over their elements. The
// concatenation stays in shared memory. What makes the reduced values joins too, and is also stored
// if other regions read it.
//
// So it does for sums with one element per row that are concatenated, such as the answers of a
// model for several tasks. Groups with the same rows that do not need each other become one region,
// if their rows take little shared memory together.
//
// A product by one matrix for all rows joins if the matrix has up to kMostSharedWeights elements.
// It also joins if each row has many lines, tensor cores can compute the product
// (FindSharedProduct), and the weights fit into shared memory beside the rows
// (PassOptions::block_shared_bytes). Wider layers go to the library. In this way an MLP on each
// item of a history with softmax over the items, or all layers of attention over the fields of an
// example, become one kernel. A group becomes a region only if that saves a launch, and if no value
// is read across rows.
Result<bool> FuseBlockProgram(Graph& graph, const PassOptions& options, PassReport& report);

// The nodes around the product or reduction `seed` that FuseBlockProgram would make a region of;
// nullopt if it would make none.
std::optional<NodeSet> FindBlockProgram(const Graph& graph, const Node& seed,
                                        const PassOptions& options);

}  // namespace fusec
