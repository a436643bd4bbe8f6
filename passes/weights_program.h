#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "passes/lineage.h"
#include "passes/specialization.h"

namespace fusec {

// A constant that an artifact's program ends up with.
struct FinalConstant {
  std::string name;
  std::shared_ptr<Derivation> derivation;
};

// The graph that computes constants of the model's initializers: its inputs are the initializers,
// as the model calls them (`names`, by the graph's), and its outputs the constants. A node that a
// pass asked for has the pass for its origin. Every result has the dtype that it is rounded to.
//
//   graph @weights(%w "fc.weight" : f32[2, 3]) {
//     %w_transposed = transpose(%w) {perm = [1, 0]} : f32[3, 2] @ "fold-constants"
//     return %w_transposed "w_transposed"
//   }
std::unique_ptr<Graph> WeightsProgram(const Derivations& initializers,
                                      ArrayRef<FinalConstant> constants,
                                      const std::map<std::string, std::string>& names);

// The constants of all targets' graphs, each once. The first of those that have a name in common
// has it; others have their hash behind it.
std::vector<FinalConstant> FinalConstants(ArrayRef<std::shared_ptr<const Graph>> graphs);

// What passes specialized the program on, of the initializers that the constants were made of.
std::vector<Specialization> Specializations(const Derivations& initializers,
                                            ArrayRef<FinalConstant> constants,
                                            const std::map<std::string, std::string>& names);

// Runs such a graph node by node, and rounds each result to its dtype. The inputs match the
// graph's.
Result<std::vector<TensorData>> RunWeightsProgram(const Graph& program,
                                                  ArrayRef<TensorData> inputs);

}  // namespace fusec
