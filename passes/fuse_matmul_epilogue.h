#pragma once

#include <map>
#include <set>
#include <vector>

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

// `matmul` with what a library does in the same call, and the last value of that.
struct LibraryProduct {
  std::set<const Node*> nodes;
  const Value* tail;
};
LibraryProduct FindLibraryProduct(const Graph& graph,
                                  const std::map<const Value*, std::vector<Node*>>& readers,
                                  const Node& matmul);

}  // namespace fusec
