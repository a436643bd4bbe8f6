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

// The artifact's file with the program of the weights.
inline constexpr const char* kWeightsProgram = "ir/weights.ir";

// The graph that makes the constants of all targets' graphs of the model's initializers
// (passes/weights_program.h). Artifacts of an earlier fusec have none, which is an error.
Result<std::unique_ptr<Graph>> ReadWeightsProgram(const std::string& artifact);

std::vector<const Node*> RegionsOf(const Graph& graph);

// Loads the data of those constants of `graph` that are in the artifact's weights. An error names a
// tensor that differs from the one that was compiled.
Result<void> LoadPayloads(const std::string& artifact, Graph& graph);

}  // namespace fusec
