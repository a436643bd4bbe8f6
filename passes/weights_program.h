#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "passes/lineage.h"
#include "passes/specialization.h"

namespace fusec {

// A constant of the final program of an artifact.
struct FinalConstant {
  std::string name;
  std::shared_ptr<Derivation> derivation;
};

// The graph that computes constants from the model's initializers. Its inputs are the initializers,
// under the names of the model (`names` maps the graph's names to these), and its outputs are the
// constants. The origin of a node is the pass that asked for it. Every result has the dtype to
// which it is rounded.
//
//   graph @weights(%w "fc.weight" : f32[2, 3]) {
//     %w_transposed = transpose(%w) {perm = [1, 0]} : f32[3, 2] @ "fold-constants"
//     return %w_transposed "w_transposed"
//   }
std::unique_ptr<Graph> WeightsProgram(const Derivations& initializers,
                                      ArrayRef<FinalConstant> constants,
                                      const std::map<std::string, std::string>& names);

// The constants of the graphs of all targets, each once. If different constants have the same name,
// the first keeps it, and the hash of its elements is appended to the names of the others.
std::vector<FinalConstant> FinalConstants(ArrayRef<std::shared_ptr<const Graph>> graphs);

// The ways in which passes specialized the program on the initializers that the constants were made
// from.
std::vector<Specialization> Specializations(const Derivations& initializers,
                                            ArrayRef<FinalConstant> constants,
                                            const std::map<std::string, std::string>& names);

// Runs such a graph node by node, and rounds each result to its dtype. `inputs` must match the
// inputs of the graph.
Result<std::vector<TensorData>> RunWeightsProgram(const Graph& program,
                                                  ArrayRef<TensorData> inputs);

}  // namespace fusec
