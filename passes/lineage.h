#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/derivation.h"
#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

// Records, through all passes, how each constant was derived from the initializers of the model.
namespace fusec {

using Derivations = std::vector<std::shared_ptr<Derivation>>;

// Marks the constants of a graph that no pass has changed yet as initializers, and returns them.
// `names` maps the graph's names to the model's; with it, constants that are not in it count as
// made by the importer and are not marked. An initializer on which no output depends, such as a
// shape, is recorded as one that the importer decided by.
Derivations MarkInitializers(Graph& graph,
                             const std::map<std::string, std::string>* names = nullptr);

// The initializers that a constant was made from; the constant itself if it is an initializer.
Derivations InitializersOf(const std::shared_ptr<Derivation>& derivation);

// The nodes that read each constant of a graph, including nodes within regions. Only for look-ups.
using ConstantReaders = DenseMap<const Value*, std::vector<const Node*>>;
ConstantReaders ReadersOfConstants(const Graph& graph);

// Observes one pass: it is constructed before the pass runs, and Record is called if the pass
// changed the graph.
//
// A pass *decides* by a constant if it reads the elements of the constant and removes one of its
// readers, without making another constant from it. An example is an exponent of 2, for which pow
// becomes a multiplication.
class LineageRecorder {
 public:
  explicit LineageRecorder(const Graph& before);
  void Record(Graph& after, const std::string& pass) const;

 private:
  struct Known {
    std::shared_ptr<Derivation> derivation;
    size_t readers = 0;
  };
  std::vector<Known> known_;
};

}  // namespace fusec
