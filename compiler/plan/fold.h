#pragma once

#include <functional>
#include <string>

#include "compiler/ops/op_def.h"

namespace fusec {

// How a reduction starts, folds in an element, and folds the threads of a block.
struct Fold {
  std::string start;
  std::string how;  // of block_reduce.cuh
  std::function<std::string(const std::string& total, const std::string& element)> step;
};

Fold FoldOf(OpKind kind, Dtype dtype);

// What elements are folded in. The sum behind a mean of integers may not wrap, the mean fits.
Dtype FoldDtype(const Node& reducer);

// Reductions and matmuls: ops whose element is folded from many.
bool IsReducer(const Node& node);

}  // namespace fusec
