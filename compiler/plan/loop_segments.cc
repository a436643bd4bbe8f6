#include "compiler/plan/loop_segments.h"

#include <algorithm>
#include <utility>

#include "compiler/ir/in_place.h"
#include "compiler/region/stack_parts.h"

namespace fusec {

namespace {

void AddSegment(const LoopSegment& segment, std::vector<LoopGroup>& groups) {
  for (LoopGroup& group : groups) {
    const bool fits = !group.run && group.shape() == segment.shape() &&
                      group.segments.front().output != segment.output;
    if (fits) return group.segments.push_back(segment);
  }
  groups.push_back({{segment}, nullptr, 0});
}

// Adds the segments of `value`, which begins at `at` in the output.
void SplitValue(const Node& region, const Value* value, int output, Exprs at, LoopSegments& all) {
  const Node* producer = value->producer;
  if (producer && IsInPlace(*producer))
    return AddSegment({producer->operand(2), output, at, producer}, all.groups);
  if (!producer || producer->kind != OpKind::kConcat || producer->Int("axis") == 0)
    return AddSegment({value, output, at}, all.groups);
  const int64_t axis = producer->Int("axis");
  all.lead = std::min<int>(all.lead, static_cast<int>(axis));
  const std::vector<const Value*> parts(producer->operands.begin(), producer->operands.end());
  Expr& offset = at[at.size() - value->type.rank() + axis];
  for (size_t k = 0; k < parts.size();) {
    auto run = FindPartRun(region, ArrayRef(parts).drop_front(k));
    const size_t taken = run ? run->count : 1;
    if (run)
      all.groups.push_back(
          {{{parts[k], output, Exprs(at)}}, std::make_shared<PartRun>(std::move(*run)), axis});
    else
      AddSegment({parts[k], output, at}, all.groups);
    for (size_t end = k + taken; k < end; ++k) offset = offset + parts[k]->type.shape[axis];
  }
}

}  // namespace

LoopSegments SegmentsOf(const Node& region) {
  LoopSegments all;
  const Graph& body = *region.body;
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    const Value* value = body.outputs[i];
    Exprs start(value->type.rank(), 0);
    std::vector<const Value*> stacked = {value};
    if (body.outputs.size() == 1 && !StackedParts(value).empty()) stacked = StackedParts(value);
    for (size_t part = 0; part < stacked.size(); ++part) {
      if (part > 0) start[0] = static_cast<int64_t>(part);
      SplitValue(region, stacked[part], static_cast<int>(i), start, all);
    }
  }
  const int most = std::max(all.groups[0].segments[0].value->type.rank() - 1, 0);
  all.lead = all.IsSingle() ? most : std::min(all.lead, most);
  return all;
}

}  // namespace fusec
