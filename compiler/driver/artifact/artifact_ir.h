#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// The fused graph from which a target of an artifact was planned: constants and one region per
// step, in the order of the steps. Large constants have no data until LoadPayloads loads it.
Result<std::unique_ptr<Graph>> ReadFusedGraph(const std::string& artifact,
                                              const std::string& target);

// The file of an artifact that holds the graph of ReadWeightsProgram.
inline constexpr const char* kWeightsProgram = "ir/weights.ir";

// The graph that computes the constants of all targets' graphs from the model's initializers
// (passes/weights_program.h). An artifact without one, which an older fusec made, is an error.
Result<std::unique_ptr<Graph>> ReadWeightsProgram(const std::string& artifact);

std::vector<const Node*> RegionsOf(const Graph& graph);

// Loads the data of those constants of `graph` that are in the artifact's weights. An error names a
// tensor that differs from the one that was compiled.
Result<void> LoadPayloads(const std::string& artifact, Graph& graph);

}  // namespace fusec
