#pragma once

#include <set>

#include "passes/graph_edit.h"
#include "passes/pass_manager.h"

namespace fusec {

// A product of long sums with what makes its left operand, where that is many times as large as
// what it is made of: it is then made where tiles are filled, and never stands in memory.
//
//   %f = gather(%x, %first)          f32[batch, 6048, 1]
//   %b = gather(%blocks, %second)    f32[batch, 6048, 16]
//   %p = mul(%f, %b)                                        =>   %y = region "matmul"(%x, ..) {
//   %s = transpose(reshape(%p))      f32[32, batch, 3024]          all of this
//   %y = matmul(%s, %w)              f32[32, batch, 512]         }
//
// Before: sums are shared out (share-long-sums), and weights stored along the depth
// (transpose-weights).
Result<bool> FuseMatMulPrologue(Graph& graph, const PassOptions& options, PassReport& report);

// What makes the left operand of `matmul`, if that has at least eight times as many elements as what
// it is made of; else nothing. Only gathers by constant indices, views and cheap pointwise ops that
// nothing else reads, since every column of tiles makes them again.
std::set<const Node*> FindPrologue(const Graph& graph, const ReaderMap& readers,
                                   const Node& matmul);

}  // namespace fusec
