#pragma once

#include <optional>
#include <string>

#include "passes/per_request.h"

namespace fusec {

// What passes ask of a graph with inputs per request.

// The dim of the items that share requests; nullopt if nothing is replicated for them.
std::optional<std::string> BatchOfItems(const Graph& graph, const PerRequest& per_request);

// The node that gives each item the row of its request, if that is what makes `value`: an expand of
// the only request's row, or a gather by `map`.
const Node* ReplicationOf(const Value* value, const Value* map);

}  // namespace fusec
