#include "passes/fuse_embedding_concat.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/region/stack_parts.h"
#include "passes/graph_edit.h"
#include "passes/loop_group.h"

namespace fusec {

namespace {

// Whether the group gathers rows, or computes sums that would otherwise be kernels of their own.
bool IsWorthAKernel(const NodeSet& group) {
  const auto has = [&](OpClass op_class, int64_t least) {
    return std::count_if(group.begin(), group.end(), [&](const Node* node) {
             return GetOpDef(node->kind).op_class == op_class;
           }) >= least;
  };
  return has(OpClass::kGather, 1) || has(OpClass::kReduction, 2);
}

// The nodes that one kernel gathers or sums into `concat`; empty if there are none.
NodeSet GatheredInto(const Node& concat, const Graph& graph, PassReport& report) {
  PassReport attempt = report;
  NodeSet group = GrowLoopGroup(graph, concat, attempt, /*pools=*/true);
  // Nested concatenations are planned from the outer one, except where the outer one stacks the
  // inner ones.
  const std::vector<const Value*> stacked = StackedParts(concat.result());
  const bool nested = std::any_of(group.begin(), group.end(), [&](const Node* node) {
    return node != &concat && node->kind == OpKind::kConcat &&
           std::find(stacked.begin(), stacked.end(), node->result()) == stacked.end();
  });
  if (!IsWorthAKernel(group) || nested) return {};
  report = attempt;
  return group;
}

// Whether a block that owns rows of one concatenation can own the same rows of the other.
bool ShareRows(const Node& a, const Node& b) {
  const int64_t axis = a.Int("axis");
  if (axis == 0 || b.Int("axis") != axis) return false;
  const Shape &left = a.result()->type.shape, &right = b.result()->type.shape;
  return left.size() == right.size() &&
         std::equal(left.begin(), left.begin() + axis, right.begin());
}

// Whether a node of the group reads one of its concatenations; it would compute the parts again.
bool ReadsItsConcats(const NodeSet& group) {
  return std::any_of(group.begin(), group.end(), [&](const Node* node) {
    return std::any_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
      const Node* producer = operand ? operand->producer : nullptr;
      return producer && producer->kind == OpKind::kConcat && group.count(producer);
    });
  });
}

void RefuseReaders(const Graph& graph, const Node& concat, PassReport& report) {
  const auto readers = Readers(graph);
  const auto found = readers.find(concat.result());
  if (found == readers.end()) return;
  for (const Node* reader : found->second) {
    report.Refuse(concat.result(), *reader,
                  "the concatenation is stored once, instead of gathered again for every element "
                  "that is made of it",
                  "a block that keeps a row of it in shared memory");
  }
}

}  // namespace

Result<bool> FuseEmbeddingConcat(Graph& graph, const PassOptions&, PassReport& report) {
  bool changed = false;
  std::vector<const Node*> concats;
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kConcat) continue;
    // Concatenations that stack others come first.
    const bool stacks = !StackedParts(node->result()).empty();
    concats.insert(stacks ? concats.begin() : concats.end(), node.get());
  }
  NodeSet done;
  for (size_t i = 0; i < concats.size(); ++i) {
    if (done.count(concats[i])) continue;
    NodeSet group = GatheredInto(*concats[i], graph, report);
    if (group.empty()) continue;
    for (const Node* node : group) {
      if (node->kind == OpKind::kConcat) done.insert(node);
    }
    RefuseReaders(graph, *concats[i], report);
    for (size_t j = i + 1; j < concats.size(); ++j) {
      if (done.count(concats[j]) || !ShareRows(*concats[i], *concats[j])) continue;
      PassReport attempt = report;
      NodeSet both = GatheredInto(*concats[j], graph, attempt);
      if (both.empty()) continue;
      both.insert(group.begin(), group.end());
      if (!IsConvex(graph, both) || ReadsItsConcats(both)) continue;
      report = attempt;
      RefuseReaders(graph, *concats[j], report);
      group = std::move(both);
      done.insert(concats[j]);
    }
    MakeRegion(graph, group, RegionClass::kGatherConcat);
    changed = true;
  }
  return changed;
}

}  // namespace fusec
