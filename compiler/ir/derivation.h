#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// How a constant of a graph came about. It is one of these:
//
//   an initializer   no pass made it
//   made             `program` computes it of `sources`
//   chosen           a pass or the importer wrote its elements down: they depend on no weights, or
//                    on `sources` in a way that is frozen, as a sorted list of ids
//
// Constants share their derivations with their copies, and derivations outlive constants that
// passes removed.
struct Derivation {
  std::string name;  // what the graph calls the constant, or called it last
  TensorType type;
  bool is_initializer = false;
  std::string pass;                      // that made or chose it; "import" before all passes
  std::unique_ptr<const Graph> program;  // of what is made: inputs match `sources`, one output
  std::vector<std::shared_ptr<Derivation>> sources;
  std::string hash;  // of an initializer or of what is chosen, as Node::constant_hash
  TensorData data;   // of what is chosen
  // Constants with the same elements, in whose place this one is read since eliminate-common.
  std::vector<std::shared_ptr<Derivation>> equals;
  // Of an initializer, passes that changed the graph by what its elements are, or what was made of
  // them, without making a constant of these.
  std::vector<std::string> deciders;
  // Set by Payload, and taken back before each pass. Kernels are planned by several threads.
  mutable std::atomic<bool> looked_at{false};
};

}  // namespace fusec
