#include "passes/find_updates.h"

#include <algorithm>

#include "compiler/ir/sorted_parts.h"
#include "compiler/region/found_sum.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

constexpr int kLongestCopy = 16;  // nodes of a place that are computed again

// The readers of a sort of places, if all of them are sums of rows that it put in order.
class Sort {
 public:
  Sort(const Graph& graph, const ReaderMap& readers, const Node& top_k)
      : graph_(graph), readers_(readers), top_k_(top_k) {}

  // Empty if there is another reader.
  std::vector<Node*> Sums() const {
    std::vector<Node*> sums;
    const bool is_of_places = top_k_.Has(kBelow) && top_k_.Int("largest") == 0 &&
                              top_k_.operand(0)->type.rank() == 1 &&
                              top_k_.Get<Exprs>("k")[0] == top_k_.operand(0)->type.shape[0];
    const auto sorted = Only(top_k_.result(0));
    if (!is_of_places || sorted.size() != 1 || sorted[0]->kind != OpKind::kLowerBounds) return {};
    const Value* bounds = sorted[0]->result();
    for (const Node* slice : Only(bounds)) {
      for (Node* sum : Only(slice->result())) {
        if (sum->kind == OpKind::kSub) continue;  // a number of updates
        if (sum->kind != OpKind::kSegmentReduce || BoundsOfRows(*sum) != bounds ||
            OrderOfRows(*sum) != top_k_.result(1))
          return {};
        if (std::find(sums.begin(), sums.end(), sum) == sums.end()) sums.push_back(sum);
      }
    }
    const auto picks = Only(top_k_.result(1));
    const bool picks_for_sums =
        !picks.empty() && std::all_of(picks.begin(), picks.end(), [&](const Node* pick) {
          return IsReadBy(pick->result(), sums);
        });
    return picks_for_sums ? sums : std::vector<Node*>();
  }

 private:
  // The readers of a value; empty if it is an output.
  std::vector<Node*> Only(const Value* value) const {
    const auto found = readers_.find(value);
    if (found == readers_.end() || IsOutput(graph_, value)) return {};
    return found->second;
  }
  // Whether sums, or pointwise ops in front of them, are all that reads a value.
  bool IsReadBy(const Value* value, ArrayRef<Node*> sums) const {
    const std::vector<Node*> all = Only(value);
    return !all.empty() && std::all_of(all.begin(), all.end(), [&](const Node* reader) {
      if (std::find(sums.begin(), sums.end(), reader) != sums.end())
        return reader->operand(0) == value;
      return reader->operands.size() == 1 && IsReadBy(reader->result(), sums);
    });
  }

  const Graph& graph_;
  const ReaderMap& readers_;
  const Node& top_k_;
};

// A copy of the cheap nodes that make `value`.
Value* Copy(Value* value, Builder& builder, int& left) {
  Node* node = value->producer;
  if (node == nullptr || !IsCheapByElement(*node) || --left < 0) return value;
  ValueList operands;
  for (Value* operand : node->operands)
    operands.push_back(operand ? Copy(operand, builder, left) : nullptr);
  return builder.Make(node->kind, operands, node->attributes, value->name);
}

}  // namespace

Result<bool> FindUpdates(Graph& graph, const PassOptions&, PassReport&) {
  const Ranges ranges = graph.SymbolRanges();
  const ReaderMap readers = Readers(graph);
  DenseMap<const Node*, std::pair<const Node*, int64_t>> limits;  // sort and limit, by sum
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kTopK) continue;
    const std::vector<Node*> sums = Sort(graph, readers, *node).Sums();
    for (const Node* sum : sums) {
      const int64_t limit = kMostUpdatesFound / static_cast<int64_t>(sums.size());
      const Expr& updates = node->operand(0)->type.shape[0];
      const Expr size = SizeOfFinding(updates, sum->result()->type.shape[0], ranges);
      if (!sum->Has(kFindsUpTo) && ranges.IntervalOf(size).low <= limit)
        limits[sum] = {node.get(), limit};
    }
  }
  return ReplaceResults(graph, [&](const Node& node, Builder& builder) -> Value* {
    const auto found = limits.find(&node);
    if (found == limits.end()) return nullptr;
    const auto [sort, limit] = found->second;
    ValueList operands = node.operands;
    int left = kLongestCopy;
    operands.push_back(Copy(sort->operand(0), builder, left));
    Attributes attributes = node.attributes;
    attributes[kFindsUpTo] = limit;
    return builder.Make(node.kind, operands, std::move(attributes), node.result()->name);
  });
}

}  // namespace fusec
