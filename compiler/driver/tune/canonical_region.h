#pragma once

#include <map>
#include <memory>
#include <string>

#include "compiler/ir/graph.h"

namespace fusec {

// A region as a graph of its own, with names that do not depend on its model. Equal regions of two
// models give equal text, so that measurements of one can be used for the other.
struct CanonicalRegion {
  std::shared_ptr<Graph> graph;  // constants and the region, which reads inputs or constants
  // The graph as text, without the elements of its float constants, on which times do not depend.
  std::string key;
  std::map<std::string, std::string> symbols;  // names in this graph, by names in the model

  const Node& region() const { return *graph->nodes.back(); }
};

// The canonical form of region number `number` of a graph of constants and regions, with the data
// of constants that are loaded.
Result<CanonicalRegion> Canonicalize(const Graph& fused, size_t number);

}  // namespace fusec
