#pragma once

#include "passes/graph_edit.h"
#include "passes/pass_manager.h"

namespace fusec {

// Makes a region of every matmul and the ops that matrix libraries compute in the same call:
// reshapes of operands and result (which move no bytes), a bias along the last axis, and relu or
// tanh-gelu as epilogue.
//
//   %m = matmul(%x, %w) {...}
//   %s = add(%m, %bias)       =>    %h = region(%x, %w, %bias) {class = "matmul"} { ... }
//   %h = relu(%s)
Result<bool> FuseMatMulEpilogue(Graph& graph, const PassOptions& options, PassReport& report);

// The nodes that a library computes in the same call as `matmul`, and the value that the last of
// them makes. With `takes_addend`, these may include a tensor of the product's shape that is added
// after the bias, and a separate bias for each of a few matrices; cuBLASLt can do both.
struct LibraryProduct {
  NodeSet nodes;
  const Value* tail;
};
LibraryProduct FindLibraryProduct(const Graph& graph, const ReaderMap& readers, const Node& matmul,
                                  bool takes_addend = false);

// Reports why the ops before and after the product are not in the same call.
void ExplainLibraryProduct(const Graph& graph, const ReaderMap& readers,
                           const LibraryProduct& product, PassReport& report);

}  // namespace fusec
