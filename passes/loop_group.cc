#include "passes/loop_group.h"

#include <algorithm>

#include "compiler/ops/op_def.h"
#include "compiler/plan/fold.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

bool CanJoin(const Node& node) {
  const OpClass op_class = GetOpDef(node.kind).op_class;
  return op_class == OpClass::kPointwise || op_class == OpClass::kView ||
         op_class == OpClass::kGather;
}

// What makes an operand of a reduction, element by element.
struct Chain {
  bool gathers = false;  // rows of a table
  bool costs = false;    // something that nobody wants to compute again
};

void Follow(const Value* value, Chain& chain, std::set<const Value*>& seen) {
  const Node* node = value ? value->producer : nullptr;
  if (!node || node->kind == OpKind::kConstant || !seen.insert(value).second) return;
  const OpDef& def = GetOpDef(node->kind);
  chain.gathers |= node->kind == OpKind::kGather || node->kind == OpKind::kGatherElements;
  chain.costs |= (def.algebra & kExpensive) != 0 || !CanJoin(*node);
  if (CanJoin(*node)) {
    for (const Value* operand : node->operands) Follow(operand, chain, seen);
  }
}

enum class Pool { kNone, kShort, kColumns };

Pool PoolOf(const Node& node) {
  constexpr int64_t kShort = 16;
  if (GetOpDef(node.kind).op_class != OpClass::kReduction) return Pool::kNone;
  if (node.kind == OpKind::kArgMax || node.kind == OpKind::kArgMin) return Pool::kNone;
  const int64_t last = node.operand(0)->type.rank() - 1;
  const auto& axes = node.Ints("axes");
  const bool keeps_columns = std::find(axes.begin(), axes.end(), last) == axes.end();
  const bool is_short = Product(ReducedDims(node)).AsConstant().value_or(kShort + 1) <= kShort;
  Chain chain;
  std::set<const Value*> seen;
  Follow(node.operand(0), chain, seen);
  if (chain.gathers && keeps_columns) return Pool::kColumns;
  return is_short && !chain.costs ? Pool::kShort : Pool::kNone;
}

bool Repeats(const Node& reader, const Value* value) {
  // A pool reads an element once, and bags do not share rows.
  if (GetOpDef(reader.kind).op_class == OpClass::kReduction) return false;
  if (reader.kind == OpKind::kSegmentReduce && reader.operand(0) == value) return false;
  const OpClass op_class = GetOpDef(reader.kind).op_class;
  const bool one_to_one =
      op_class == OpClass::kView && reader.kind != OpKind::kExpand && reader.kind != OpKind::kTile;
  return !one_to_one && reader.result()->type.ElementCount() != value->type.ElementCount();
}

// Adds the producers of the nodes of `group` that may join.
void AddProducers(const Graph& graph, const std::map<const Value*, std::vector<Node*>>& readers,
                  const Node& root, PassReport& report, bool pools, std::set<const Node*>& group) {
  // From the root upwards: every reader of a node has been looked at before the node itself.
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i];
    const Pool pool = pools ? PoolOf(node) : Pool::kNone;
    if (group.count(&node) || (pool == Pool::kNone && !CanJoin(node))) continue;
    const Node* inside = nullptr;
    bool outside = IsOutput(graph, node.result());
    bool repeats = false;
    if (auto found = readers.find(node.result()); found != readers.end()) {
      for (const Node* reader : found->second) {
        if (!group.count(reader)) {
          outside = true;
          continue;
        }
        inside = reader;
        repeats |= Repeats(*reader, node.result());
      }
    }
    if (!inside) continue;
    if (repeats && (pool == Pool::kColumns || (GetOpDef(node.kind).algebra & kExpensive) != 0)) {
      Refuse(report, readers, group, node,
             "its elements would be computed again for every element that reads them",
             "a kernel that keeps them in shared memory");
      continue;
    }
    const bool stored = GetOpDef(node.kind).op_class == OpClass::kPointwise &&
                        !node.operands.empty() &&
                        node.result()->type.shape == root.result()->type.shape;
    if (outside && !stored) {
      Refuse(report, readers, group, node, "it is read elsewhere too, so it is stored anyway",
             "its other readers in the same kernel");
      continue;
    }
    group.insert(&node);
    if (outside && !IsConvex(graph, group)) {
      group.erase(&node);
      Refuse(report, readers, group, node, kBetween, kBetweenNeeded);
    }
  }
}

// A pointwise node of the root's shape that reads a tensor of that size which the group reads too.
const Node* FindSibling(const Graph& graph, const Node& root, const std::set<const Node*>& group) {
  std::set<const Value*> read;
  for (const Node* node : group) read.insert(node->operands.begin(), node->operands.end());
  const TensorType& type = root.result()->type;
  for (const auto& node : graph.nodes) {
    const bool is_alike = GetOpDef(node->kind).op_class == OpClass::kPointwise &&
                          node->result()->type.shape == type.shape;
    if (group.count(node.get()) || !is_alike) continue;
    const bool shares =
        std::any_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
          return operand && read.count(operand) &&
                 operand->type.ElementCount() == type.ElementCount();
        });
    if (!shares) continue;
    std::set<const Node*> both = group;
    both.insert(node.get());
    if (IsConvex(graph, both)) return node.get();
  }
  return nullptr;
}

}  // namespace

std::set<const Node*> GrowLoopGroup(const Graph& graph, const Node& root, PassReport& report,
                                    bool pools) {
  std::set<const Node*> group = {&root};
  const auto readers = Readers(graph);
  AddProducers(graph, readers, root, report, pools, group);
  const bool is_pointwise = GetOpDef(root.kind).op_class == OpClass::kPointwise;
  while (const Node* sibling = is_pointwise ? FindSibling(graph, root, group) : nullptr) {
    group.insert(sibling);
    AddProducers(graph, readers, root, report, pools, group);
  }
  if (!IsConvex(graph, group)) {
    group = {&root};
    for (const Value* operand : root.operands) {
      if (operand && operand->producer)
        Refuse(report, readers, group, *operand->producer, kBetween, kBetweenNeeded);
    }
  }
  return group;
}

}  // namespace fusec
