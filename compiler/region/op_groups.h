#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// Ops of a region that together form a well-known operation, whether the model, its exporter or a
// pass wrote it as separate ops.
struct OpGroup {
  std::string name;  // see FindOpGroups
  NodeSet nodes;     // of the region's body
};

// The groups of a region, which share no node:
//
//   attention         a product, its softmax, and a product with that; with mask and scale
//   softmax           exp(x - max(x)) / sum(exp(x - max(x)))
//   log_softmax       (x - max(x)) - log(sum(exp(x - max(x))))
//   layer_norm        (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon), a scale, a shift
//   rms_norm          x / sqrt(mean(x^2) + epsilon), a scale
//   rotary_embedding  pairs of elements, or halves of rows, rotated by an angle
//   linear            a product with constant weights, a constant bias
//   mlp               linear layers with activations between them
//   interaction       products of all pairs of rows of one matrix, or of elements of one vector
//   embedding         rows of a constant table
//   embedding_bag     the sum, mean or maximum of such rows
std::vector<OpGroup> FindOpGroups(const Node& region);

// The values of a region's body that do not depend on data: constants, sizes, and values computed
// from these alone.
ValueSet FixedValues(const Node& region);

}  // namespace fusec
