#include "compiler/import/node_order.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <map>

#include "compiler/import/problems.h"

namespace fusec {
namespace {

// Adds the tensors that a node reads, including those that its nested graphs capture.
void CollectReads(const onnx::NodeProto& node, std::set<std::string>& reads);

// Adds the tensors that a nested graph reads but does not define itself.
void CollectCaptures(const onnx::GraphProto& graph, std::set<std::string>& reads) {
  std::set<std::string> inner, made;
  for (const auto& input : graph.input()) made.insert(input.name());
  for (const auto& initializer : graph.initializer()) made.insert(initializer.name());
  for (const onnx::NodeProto& node : graph.node()) {
    CollectReads(node, inner);
    made.insert(node.output().begin(), node.output().end());
  }
  for (const auto& output : graph.output()) inner.insert(output.name());
  for (const std::string& name : inner) {
    if (!made.count(name)) reads.insert(name);
  }
}

void CollectCaptures(const onnx::NodeProto& node, std::set<std::string>& reads) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) CollectCaptures(attribute.g(), reads);
    for (const onnx::GraphProto& graph : attribute.graphs()) CollectCaptures(graph, reads);
  }
}

void CollectReads(const onnx::NodeProto& node, std::set<std::string>& reads) {
  for (const std::string& input : node.input()) {
    if (!input.empty()) reads.insert(input);
  }
  CollectCaptures(node, reads);
}

// What defines each tensor of a graph: a node's index, or kGiven for inputs and initializers.
class Definitions {
 public:
  static constexpr int kGiven = -1;

  Definitions(const onnx::GraphProto& graph, Problems& problems) {
    for (const auto& input : graph.input()) Define(graph, input.name(), kGiven, problems);
    // An initializer may be the default value of an input, so that an equal name is not an error
    // here.
    for (const auto& initializer : graph.initializer()) made_by_[initializer.name()] = kGiven;
    for (const auto& sparse : graph.sparse_initializer()) {
      made_by_[sparse.values().name()] = kGiven;
    }
    for (int i = 0; i < graph.node_size(); ++i) {
      for (const std::string& output : graph.node(i).output()) {
        if (!output.empty()) Define(graph, output, i, problems);
      }
    }
  }

  const int* Find(const std::string& tensor) const {
    const auto found = made_by_.find(tensor);
    return found == made_by_.end() ? nullptr : &found->second;
  }

 private:
  void Define(const onnx::GraphProto& graph, const std::string& tensor, int by,
              Problems& problems) {
    const auto [known, fresh] = made_by_.emplace(tensor, by);
    if (fresh) return;
    const auto maker = [&](int node) {
      return node == kGiven ? std::string("an input or initializer") : NodeLabel(graph.node(node));
    };
    problems.Add("tensor \"" + tensor + "\" is defined twice: by " + maker(known->second) +
                 " and by " + maker(by));
  }

  std::map<std::string, int> made_by_;
};

// Topological sort by Kahn's algorithm; among ready nodes, the first in the file goes first.
class Sorter {
 public:
  Sorter(const onnx::GraphProto& graph, std::vector<std::set<int>> makers)
      : graph_(graph), makers_(std::move(makers)) {}

  std::vector<int> Run(const std::vector<bool>& wanted, Problems& problems) {
    const int count = graph_.node_size();
    std::vector<std::vector<int>> readers(count);
    std::vector<size_t> missing(count);
    std::set<int> ready;
    for (int i = 0; i < count; ++i) {
      missing[i] = makers_[i].size();
      for (const int maker : makers_[i]) readers[maker].push_back(i);
      if (missing[i] == 0) ready.insert(i);
    }
    std::vector<int> order;
    std::vector<bool> done(count);
    while (!ready.empty()) {
      const int node = *ready.begin();
      ready.erase(ready.begin());
      done[node] = true;
      if (wanted[node]) order.push_back(node);
      for (const int reader : readers[node]) {
        if (--missing[reader] == 0) ready.insert(reader);
      }
    }
    for (int i = 0; i < count; ++i) {
      if (!done[i]) {
        ReportCycle(i, done, problems);
        break;
      }
    }
    return order;
  }

 private:
  // From any unsorted node, walking back through unsorted producers must run into a cycle.
  void ReportCycle(int node, const std::vector<bool>& done, Problems& problems) const {
    std::map<int, size_t> place;
    std::vector<int> path;
    while (place.emplace(node, path.size()).second) {
      path.push_back(node);
      node = *std::find_if(makers_[node].begin(), makers_[node].end(),
                           [&](int maker) { return !done[maker]; });
    }
    std::string message = "the graph has a cycle: " + NodeLabel(graph_.node(node));
    for (size_t i = path.size(); i-- > place[node];) {
      message += " -> " + NodeLabel(graph_.node(path[i]));
    }
    problems.Add(message);
  }

  const onnx::GraphProto& graph_;
  std::vector<std::set<int>> makers_;
};

}  // namespace

std::set<std::string> UsedTensors(const onnx::GraphProto& graph) {
  std::set<std::string> used;
  for (const onnx::NodeProto& node : graph.node()) CollectReads(node, used);
  for (const auto& output : graph.output()) used.insert(output.name());
  return used;
}

std::vector<int> OrderNodes(const onnx::GraphProto& graph,
                            function_ref<bool(const std::string&)> is_outer, Problems& problems) {
  const Definitions definitions(graph, problems);
  std::vector<std::set<int>> makers(graph.node_size());
  for (int i = 0; i < graph.node_size(); ++i) {
    std::set<std::string> reads;
    CollectReads(graph.node(i), reads);
    for (const std::string& tensor : reads) {
      const int* maker = definitions.Find(tensor);
      if (maker != nullptr && *maker != Definitions::kGiven) makers[i].insert(*maker);
      if (maker == nullptr && !is_outer(tensor)) {
        problems.Add(NodeLabel(graph.node(i)) + ": tensor \"" + tensor +
                     "\" is no input, no initializer and no result of a node");
      }
    }
  }

  std::vector<bool> wanted(graph.node_size());
  std::vector<int> to_visit;
  const auto want = [&](int node) {
    if (!wanted[node]) to_visit.push_back(node);
    wanted[node] = true;
  };
  for (const auto& output : graph.output()) {
    const int* maker = definitions.Find(output.name());
    if (maker != nullptr && *maker != Definitions::kGiven) want(*maker);
    if (maker == nullptr && !is_outer(output.name())) {
      problems.Add("output \"" + output.name() +
                   "\" is no input, no initializer and no result of a node");
    }
  }
  while (!to_visit.empty()) {
    const int node = to_visit.back();
    to_visit.pop_back();
    for (const int maker : makers[node]) want(maker);
  }
  return Sorter(graph, std::move(makers)).Run(wanted, problems);
}

std::set<std::string> CapturesOf(const onnx::NodeProto& node) {
  std::set<std::string> captures;
  CollectCaptures(node, captures);
  return captures;
}

}  // namespace fusec
