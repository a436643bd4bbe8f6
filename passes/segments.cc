#include "passes/segments.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/op_def.h"

namespace fusec {

namespace {

using Nodes = std::vector<std::unique_ptr<Node>>;

// The index of the last node that reads each value; for outputs, the number of nodes.
DenseMap<const Value*, size_t> LastReaders(const Graph& graph, const Nodes& nodes) {
  DenseMap<const Value*, size_t> last;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const Value* operand : nodes[i]->operands) last[operand] = i;
  }
  for (const Value* output : graph.outputs) last[output] = nodes.size();
  return last;
}

// Moves each view to its first reader, so that no cut parts the two: what is read in every layer
// crosses a cut once, not once for each later layer.
Nodes WithViewsAtReaders(Nodes nodes) {
  DenseMap<const Node*, size_t> first_reader;  // the place of a view, in the order of before
  std::vector<std::pair<size_t, size_t>> places(nodes.size());
  for (size_t i = nodes.size(); i-- > 0;) {
    const Node& node = *nodes[i];
    const auto found = first_reader.find(&node);
    const bool moves = GetOpDef(node.kind).op_class == OpClass::kView;
    const size_t place = moves && found != first_reader.end() ? found->second : i;
    places[i] = {place, i};
    for (const Value* operand : node.operands) {
      if (!operand || !operand->producer) continue;
      size_t& first = first_reader.try_emplace(operand->producer, place).first->second;
      first = std::min(first, place);
    }
  }
  std::sort(places.begin(), places.end());
  Nodes moved;
  for (const auto& [place, i] : places) moved.push_back(std::move(nodes[i]));
  return moved;
}

// Finds the end of a segment that begins at `start`. The segment has `most` / 2 to `most` nodes;
// among the possible cuts, the one is taken that the fewest values cross.
class CutFinder {
 public:
  CutFinder(const Nodes& nodes, const DenseMap<const Value*, size_t>& last_reader)
      : crossing_(nodes.size() + 2) {
    for (size_t i = 0; i < nodes.size(); ++i) {  // first, the difference to the cut before
      for (const auto& result : nodes[i]->results) {
        const auto found = last_reader.find(result.get());
        if (found == last_reader.end()) continue;
        ++crossing_[i + 1];
        --crossing_[found->second + 1];
      }
    }
    for (size_t i = 1; i < crossing_.size(); ++i) crossing_[i] += crossing_[i - 1];
  }

  size_t EndFrom(size_t start, size_t most) const {
    const size_t node_count = crossing_.size() - 2;
    if (node_count - start <= most) return node_count;
    const auto places = crossing_.begin() + static_cast<int64_t>(start);
    const auto fewest = std::min_element(places + static_cast<int64_t>(most / 2),
                                         places + static_cast<int64_t>(most + 1));
    return static_cast<size_t>(fewest - crossing_.begin());
  }

 private:
  std::vector<int64_t> crossing_;  // by cut: the number of values made before and read after it
};

// Holds some nodes of a graph as a graph of their own, until GiveBack returns them.
class Segment {
 public:
  Segment(const Graph& whole, Nodes nodes) {
    graph_.name = whole.name;
    graph_.symbols = whole.symbols;
    for (auto& node : nodes) {
      for (Value*& operand : node->operands) {
        if (operand != nullptr) operand = Inside(operand);
      }
      for (const auto& result : node->results) {
        inside_[result.get()] = result.get();
        names_.insert(result->name);
      }
      graph_.nodes.push_back(std::move(node));
    }
  }

  // Its outputs are the values of the segment that other nodes or the caller read.
  Graph& graph() { return graph_; }

  // Appends the nodes to those of `whole`; new values get names that are unique there.
  void GiveBack(Graph& whole) {
    for (Value*& output : graph_.outputs) output = Outside(output);
    for (auto& node : graph_.nodes) {
      if (outside_.count(node->result()) != 0) continue;  // a copy of a constant
      for (Value*& operand : node->operands) operand = Outside(operand);
      for (const auto& result : node->results) {
        if (names_.count(result->name) == 0) result->name = whole.UniqueName(result->name);
      }
      whole.nodes.push_back(std::move(node));
    }
  }

 private:
  // What represents a value of the whole graph here: the value itself, a copy of the constant, or
  // an input.
  Value* Inside(Value* value) {
    Value*& inside = inside_[value];
    if (inside != nullptr) return inside;
    if (IsConstant(value)) {
      graph_.nodes.push_back(CopyNode(*value->producer, [](Value* operand) { return operand; }));
      inside = graph_.nodes.back()->result();
    } else {
      graph_.inputs.push_back(std::make_unique<Value>(*value));
      inside = graph_.inputs.back().get();
      inside->producer = nullptr;
      inside->result_index = static_cast<int>(graph_.inputs.size()) - 1;
    }
    outside_[inside] = value;
    return inside;
  }

  Value* Outside(Value* value) const {
    const auto found = outside_.find(value);
    return found == outside_.end() ? value : found->second;
  }

  Graph graph_;
  DenseMap<const Value*, Value*> inside_;   // by value of the whole graph
  DenseMap<const Value*, Value*> outside_;  // the other way round
  std::set<std::string> names_;  // names that results of the segment had in the whole graph
};

// Runs the pass on `nodes` and appends the resulting nodes to the graph. `exits`: the results of
// `nodes` that are read elsewhere; on return, the values that replace them.
Result<bool> RunOn(Nodes nodes, ValueList& exits, Graph& graph, PassFunction pass,
                   const PassOptions& options, PassReport& report) {
  Segment segment(graph, std::move(nodes));
  segment.graph().outputs = exits;
  FUSEC_ASSIGN(const bool changed, pass(segment.graph(), options, report));
  segment.GiveBack(graph);
  exits = segment.graph().outputs;
  return changed;
}

}  // namespace

Result<bool> RunInSegments(Graph& graph, PassFunction pass, const PassOptions& options,
                           PassReport& report, const SegmentSizes& sizes) {
  if (graph.nodes.size() <= sizes.most) return pass(graph, options, report);
  graph.RememberNames();
  Nodes computing;
  Nodes constants;
  for (auto& node : graph.nodes)
    (node->kind == OpKind::kConstant ? constants : computing).push_back(std::move(node));
  graph.nodes = std::move(constants);
  computing = WithViewsAtReaders(std::move(computing));
  const DenseMap<const Value*, size_t> last_reader = LastReaders(graph, computing);
  const CutFinder cuts(computing, last_reader);
  bool changed = false;
  for (size_t start = 0; start < computing.size();) {
    const size_t end = cuts.EndFrom(start, sizes.of_segment);
    Nodes nodes;
    ValueList exits;
    for (; start < end; ++start) {
      for (const auto& result : computing[start]->results) {
        const auto last = last_reader.find(result.get());
        if (last != last_reader.end() && last->second >= end) exits.push_back(result.get());
      }
      nodes.push_back(std::move(computing[start]));
    }
    const ValueList before = exits;
    FUSEC_ASSIGN(const bool one, RunOn(std::move(nodes), exits, graph, pass, options, report));
    changed |= one;
    DenseMap<const Value*, Value*> now;
    for (size_t i = 0; i < exits.size(); ++i) now[before[i]] = exits[i];
    const auto follow = [&](Value*& value) {
      if (const auto found = now.find(value); found != now.end()) value = found->second;
    };
    for (size_t i = end; i < computing.size(); ++i) {
      for (Value*& operand : computing[i]->operands) follow(operand);
    }
    for (Value*& output : graph.outputs) follow(output);
  }
  graph.ForgetNames();
  return changed;
}

}  // namespace fusec
