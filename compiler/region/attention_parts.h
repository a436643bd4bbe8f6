#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace fusec {

// weights x values, where the weights are made of scores, the product of queries and keys, by any
// pointwise ops: a scale, a mask, a bias, silu. Softmax may be the last of them.
struct AttentionParts {
  const Node* scores = nullptr;  // the product [.., queries, keys]
  // What pointwise ops make of the scores: what softmax, over its last axis, is of, or the weights.
  const Value* score = nullptr;
  bool has_softmax = false;
  // What gives the probabilities of a row zeros if they are no numbers, as those of a row that is
  // masked wholly are: where(isnan(p), 0, p). Null if nothing does. That the number is 0 is for
  // passes to see, as constants stand outside of regions.
  const Node* guard = nullptr;
  const Node* values = nullptr;  // the product of the weights [.., queries, keys] and the values
  NodeSet nodes;                 // these, and all between them
};

// The attention whose second product is `values`, if there is one. Two layers with an activation
// between them look the same where there is no softmax: their keys and values are weights.
std::optional<AttentionParts> FindAttention(const Node& values);

}  // namespace fusec
