#include "passes/not_fused.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "compiler/ir/op_def.h"
#include "compiler/ir/region_class.h"

namespace fusec {

namespace {

struct Why {
  std::string reason, needed;
};

std::string NameOf(const Node& node) {
  return !node.provenance.empty() && !node.provenance[0].onnx_node.empty()
             ? node.provenance[0].onnx_node
             : node.result()->name;
}

// For an edge that no pass looked at: why regions of these classes are not fused in general.
Why WhyByClass(RegionClass producer, RegionClass consumer) {
  if (producer == RegionClass::kSequential || consumer == RegionClass::kSequential) {
    return {
        "the kernel of a scan, sort or scatter computes only views, look-ups and cheap pointwise "
        "ops that nothing else reads, and nothing behind it: its elements depend on each other in "
        "an order",
        "a kernel for that op that also computes its other neighbours"};
  }
  if (producer == RegionClass::kRecurrence || consumer == RegionClass::kRecurrence) {
    return {
        "a recurrence (GRU, LSTM, RNN) is a kernel of its own: its blocks walk through all steps "
        "of "
        "their rows",
        "a kernel for the steps that also computes its neighbours"};
  }
  if (consumer == RegionClass::kMatMul) {
    return {"a matrix product reads its operands from memory",
            "a matmul kernel that computes them on the way"};
  }
  if (producer == RegionClass::kMatMul) {
    return {
        "a matrix product goes to memory, after a bias and an activation at "
        "most",
        "a matmul kernel with this op behind it"};
  }
  return {std::string("no pass joins a finished region of class ") + RegionClassText(producer) +
              " to one of class " + RegionClassText(consumer),
          "a pass that plans both as one kernel"};
}

// The refusals of each edge, by its value and its reader, in the order in which passes gave them.
using RefusalsByEdge = std::map<std::pair<std::string, std::string>, std::vector<const Refusal*>>;

RefusalsByEdge ByEdge(const PassReport& report) {
  RefusalsByEdge refusals;
  for (const Refusal& refusal : report.refusals)
    refusals[{refusal.value, refusal.reader}].push_back(&refusal);
  return refusals;
}

// The reasons of all passes that refused the edge, joined.
Why WhyOf(const RefusalsByEdge& refusals, const std::string& value, const std::string& reader,
          RegionClass producer_class, RegionClass consumer_class) {
  Why why;
  if (const auto found = refusals.find({value, reader}); found != refusals.end()) {
    for (const Refusal* refusal : found->second) {
      why.reason += (why.reason.empty() ? "" : "; ") + refusal->pass + ": " + refusal->reason;
      if (refusal->needed.empty() || why.needed.find(refusal->needed) != std::string::npos)
        continue;
      why.needed += (why.needed.empty() ? "" : ", or ") + refusal->needed;
    }
  }
  return why.reason.empty() ? WhyByClass(producer_class, consumer_class) : why;
}

const Node* NodeOf(const Node& region, const std::string& value) {
  for (const auto& node : region.body->nodes) {
    for (const auto& result : node->results) {
      if (result->name == value) return node.get();
    }
  }
  return nullptr;
}

}  // namespace

std::vector<NotFused> NotFusedEdges(const Graph& graph, const PassReport& report) {
  std::vector<NotFused> edges;
  const RefusalsByEdge refusals = ByEdge(report);
  DenseMap<const Node*, size_t> numbers;  // by region: its index
  for (const auto& region : graph.nodes) {
    if (region->kind != OpKind::kRegion) continue;
    const size_t number = numbers.size();
    numbers.try_emplace(region.get(), number);
    const RegionClass consumer_class = RegionClassOf(*region);
    for (size_t i = 0; i < region->operands.size(); ++i) {
      const Value* value = region->operands[i];
      const auto producer = numbers.find(value->producer);
      if (producer == numbers.end()) continue;  // an input or a constant
      const RegionClass producer_class = RegionClassOf(*producer->first);
      const Value* inside = region->body->inputs[i].get();
      const Node* maker = NodeOf(*producer->first, value->name);
      for (const auto& reader : region->body->nodes) {
        if (std::find(reader->operands.begin(), reader->operands.end(), inside) ==
            reader->operands.end())
          continue;
        Why why =
            WhyOf(refusals, value->name, reader->result()->name, producer_class, consumer_class);
        edges.push_back({NameOf(maker ? *maker : *producer->first), NameOf(*reader), value->name,
                         producer->second, number, std::move(why.reason), std::move(why.needed)});
      }
    }
  }
  return edges;
}

}  // namespace fusec
