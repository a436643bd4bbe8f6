#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// How a constant of a graph was made. It is one of these:
//
//   an initializer   no pass made it
//   made             `program` computes it from `sources`
//   chosen           a pass or the importer wrote its elements: they do not depend on weights, or
//                    depend on `sources` in a way that is frozen, such as a sorted list of ids
//
// A constant and its copies share one derivation, which outlives constants that passes remove.
struct Derivation {
  std::string name;  // the constant's name in the graph, or its last name
  TensorType type;
  bool is_initializer = false;
  std::string pass;  // the pass that made or chose it; "import" for the importer
  std::unique_ptr<const Graph> program;  // if made: inputs match `sources`, one output
  std::vector<std::shared_ptr<Derivation>> sources;
  std::string hash;  // if an initializer or chosen: as Node::constant_hash
  TensorData data;   // if chosen
  // Constants with equal elements whose uses eliminate-common redirected to this one.
  std::vector<std::shared_ptr<Derivation>> equals;
  // Initializers only: passes that changed the graph depending on the elements of this initializer,
  // or of constants made from it, without making a constant of them.
  std::vector<std::string> deciders;
  // Set by Payload, and reset before each pass. It is atomic because kernels are planned by several
  // threads.
  mutable std::atomic<bool> looked_at{false};
};

}  // namespace fusec
