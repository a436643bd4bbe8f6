#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// The fused graph that a target of an artifact was planned from: constants and one region per step,
// in the order of the steps. Big constants have no payload (see LoadPayloads).
Result<std::unique_ptr<Graph>> ReadFusedGraph(const std::string& artifact,
                                              const std::string& target);

std::vector<const Node*> RegionsOf(const Graph& graph);

// Gives the constants of `graph` that the artifact's weights hold their data. An error names a
// tensor that is not what the graph was made with.
Result<void> LoadPayloads(const std::string& artifact, Graph& graph);

}  // namespace fusec
