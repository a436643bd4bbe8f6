#pragma once

#include <map>
#include <memory>
#include <string>

#include "compiler/ir/graph.h"

namespace fusec {

// A region as a graph of its own under names that do not depend on its model: equal regions of two
// models give equal text, so that what was measured for one serves the other.
struct CanonicalRegion {
  std::shared_ptr<Graph> graph;  // constants and the region, which reads inputs or constants
  // The graph as text, without what its float constants hold: times do not depend on that.
  std::string key;
  std::map<std::string, std::string> symbols;  // its name here, by that in the model

  const Node& region() const { return *graph->nodes.back(); }
};

// Region number `number` of a graph of constants and regions, with the payloads that are loaded.
Result<CanonicalRegion> Canonicalize(const Graph& fused, size_t number);

}  // namespace fusec
