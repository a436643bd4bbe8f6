#pragma once

#include "compiler/ir/graph.h"

namespace fusec {

// Replaces the product of a concatenation of columns and a matrix by the sum of the products of its
// parts: [x, h] W = x Wx + h Wh. Cells of TensorFlow 1 multiply their input and their state so.
// `outputs` are the graph's results, which are replaced as well.
void SplitProductsOfConcats(Graph& graph, std::vector<Value*>& outputs);

}  // namespace fusec
