#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/derivation.h"
#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

// What passes do to constants, followed through all of them.
namespace fusec {

using Derivations = std::vector<std::shared_ptr<Derivation>>;

// The constants of a graph that no pass has changed yet become initializers; with `names`, the
// model's names by the graph's, those that are not there are the importer's. Returns the
// initializers. By those that no output depends on, such as shapes, the importer has decided.
Derivations MarkInitializers(Graph& graph,
                             const std::map<std::string, std::string>* names = nullptr);

// The initializers that a constant was made of, itself if it is one.
Derivations InitializersOf(const std::shared_ptr<Derivation>& derivation);

// The nodes that read constants of a graph, within regions too; looked up only.
using ConstantReaders = DenseMap<const Value*, std::vector<const Node*>>;
ConstantReaders ReadersOfConstants(const Graph& graph);

// Follows one pass: made before it runs, and told when it has changed the graph.
//
// A pass *decides* by a constant that it looked at, took a reader away from, and made no other
// constant of, as of an exponent that became a product.
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
