#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace fusec {

// An attention: weights x values, where the weights are computed from the scores, the product of
// queries and keys, by any pointwise ops: a scale, a mask, a bias, SiLU. A softmax may be the last
// of them.
struct AttentionParts {
  const Node* scores = nullptr;  // the product [.., queries, keys]
  // The result of the pointwise ops on the scores: the operand of the softmax, which is along the
  // last axis, or the weights themselves if there is no softmax.
  const Value* score = nullptr;
  bool has_softmax = false;
  // The node where(isnan(p), 0, p), which replaces the NaN probabilities of a fully masked row by
  // 0, or where(equal(m, -infinity), 0, p), where m is the maximum of which the softmax consists;
  // null if there is none. Passes must check the numbers, because constants are outside of regions.
  const Node* guard = nullptr;
  const Node* guard_test() const { return guard->operand(0)->producer; }
  const Node* values = nullptr;  // the product of the weights [.., queries, keys] and the values
  NodeSet nodes;                 // these and all nodes between them
};

// The attention whose second product is `values`, if there is one. Without a softmax, two layers
// with an activation between them match as well; their keys and values are weights.
std::optional<AttentionParts> FindAttention(const Node& values);

}  // namespace fusec
