#pragma once

#include <memory>
#include <vector>

#include "compiler/plan/part_run.h"

namespace fusec {

// The elements of one value, and their place in an output. A concatenation or a stack becomes one
// segment per part, so that no element has to determine which part it belongs to.
struct LoopSegment {
  const Value* value = nullptr;
  int output = 0;
  Exprs offset;  // of the first element; has the output's rank
  // The scatter_elements in place whose updates the segment computes; null for most segments.
  const Node* scatter = nullptr;
  const Shape& shape() const { return value->type.shape; }
};

// Segments of one shape share their loops. A run of similar parts is one segment and a loop over
// them.
struct LoopGroup {
  std::vector<LoopSegment> segments;
  std::shared_ptr<PartRun> run;  // null if the group is no run
  int64_t run_axis = 0;

  const Shape& shape() const { return segments.front().shape(); }
  int parts() const { return run ? run->count : 1; }
};

// What a loop over the elements of a region's results computes.
struct LoopSegments {
  std::vector<LoopGroup> groups;
  int lead = 1 << 20;  // the leading axes that all segments share

  // Whether all segments share their loops.
  bool IsSingle() const { return groups.size() == 1 && !groups[0].run; }
};
LoopSegments SegmentsOf(const Node& region);

}  // namespace fusec
