#pragma once

#include <set>
#include <vector>

#include "passes/graph_edit.h"
#include "passes/pass_manager.h"

namespace fusec {

// Makes a region of every matmul with what the matrix libraries do in the same call: reshapes of
// operands and result (the bytes stay where they are), a bias along the last axis, and relu or tanh
// gelu.
//
//   %m = matmul(%x, %w) {...}
//   %s = add(%m, %bias)       =>    %h = region(%x, %w, %bias) {class = "matmul"} { ... }
//   %h = relu(%s)
Result<bool> FuseMatMulEpilogue(Graph& graph, const PassOptions& options, PassReport& report);

// `matmul` with what a library does in the same call, and the last value of that. cuBLASLt may also
// add a tensor of the product's shape, behind the bias, or a bias of its own to each of a
// few matrices.
struct LibraryProduct {
  std::set<const Node*> nodes;
  const Value* tail;
};
LibraryProduct FindLibraryProduct(const Graph& graph, const ReaderMap& readers, const Node& matmul,
                                  bool takes_addend = false);

// Says why the product ends where it does, and why it begins where it does.
void ExplainLibraryProduct(const Graph& graph, const ReaderMap& readers,
                           const LibraryProduct& product, PassReport& report);

}  // namespace fusec
