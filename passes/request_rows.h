#pragma once

#include <optional>
#include <string>

#include "passes/per_request.h"

namespace fusec {

// Queries of a graph that has per-request inputs.

// The dim of the items that share requests; nullopt if nothing is replicated for them.
std::optional<std::string> BatchOfItems(const Graph& graph, const PerRequest& per_request);

// If `value` holds the row of its request for each item, the node that makes it: an expand of the
// row of the only request, or a gather by `map` if that is not null. Otherwise null.
const Node* ReplicationOf(const Value* value, const Value* map);

}  // namespace fusec
