#pragma once

#include <string>
#include <vector>

#include "passes/pass_manager.h"

namespace fusec {

// A tensor that one region of a fused graph writes to memory and another reads from there, and why
// the two are not one region.
struct NotFused {
  std::string producer, consumer;  // names of ONNX nodes, or of IR values where there are none
  std::string tensor;              // the value's name
  size_t producer_region = 0, consumer_region = 0;  // indices among the graph's regions
  std::string reason;  // what each pass that looked at the edge said: "fuse-row-reduction: ..."
  std::string needed;  // what it would take to fuse them
};

// All such edges of a graph of constants and regions, ordered by consumer, then by operand.
// `report` comes from the passes that made the graph. For an edge that no pass looked at, the
// reason is derived from the classes of its two regions.
std::vector<NotFused> NotFusedEdges(const Graph& graph, const PassReport& report);

}  // namespace fusec
