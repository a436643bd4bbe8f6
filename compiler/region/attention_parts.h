#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace fusec {

// softmax(score) x values, where a score is a product of a query and a key with whatever pointwise
// ops behind it: a scale, a mask, a bias.
struct AttentionParts {
  const Node* scores = nullptr;  // the product [.., queries, keys]
  const Value* score = nullptr;  // what softmax, over its last axis, is of
  // What gives the probabilities of a row zeros if they are no numbers, as those of a row that is
  // masked wholly are: where(isnan(p), 0, p). Null if nothing does. That the number is 0 is for
  // passes to see, as constants stand outside of regions.
  const Node* guard = nullptr;
  const Node* values =
      nullptr;  // the product of the probabilities [.., queries, keys] and the values
  NodeSet nodes;  // these, and all between them
};

// The attention whose second product is `values`, if there is one.
std::optional<AttentionParts> FindAttention(const Node& values);

}  // namespace fusec
