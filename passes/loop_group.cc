#include "passes/loop_group.h"

#include <algorithm>

#include "compiler/ir/in_place.h"
#include "compiler/ir/op_def.h"
#include "compiler/region/reducers.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// The most ops of a loop that follow one another: planners recurse over them, and compilers are
// slow for functions with many statements.
constexpr int kLongestChain = 1024;
// The most siblings of a root. Each adds a result, and kernels have room for so many parameters.
constexpr int kMostSiblings = 31;

bool CanJoin(const Node& node) {
  const OpClass op_class = GetOpDef(node.kind).op_class;
  return op_class == OpClass::kPointwise || op_class == OpClass::kView ||
         op_class == OpClass::kGather;
}

// The ops that make an operand of a reduction, element by element.
struct Chain {
  bool gathers = false;  // rows of a table
  bool costs = false;    // contains an op that is too expensive to compute again
};

void Follow(const Value* value, Chain& chain, ValueSet& seen) {
  const Node* node = value ? value->producer : nullptr;
  if (!node || node->kind == OpKind::kConstant || !seen.insert(value).second) return;
  if (node->kind == OpKind::kRegion) return;  // its results are stored
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
  ValueSet seen;
  Follow(node.operand(0), chain, seen);
  if (chain.gathers && keeps_columns) return Pool::kColumns;
  return is_short && !chain.costs ? Pool::kShort : Pool::kNone;
}

bool Repeats(const Node& reader, const Value* value) {
  if (IsInPlace(reader)) return false;  // the loop runs over its updates
  // A pooling reduction reads each element once, and bags do not share rows.
  if (GetOpDef(reader.kind).op_class == OpClass::kReduction) return false;
  if (reader.kind == OpKind::kSegmentReduce && reader.operand(0) == value) return false;
  const OpClass op_class = GetOpDef(reader.kind).op_class;
  const bool one_to_one =
      op_class == OpClass::kView && reader.kind != OpKind::kExpand && reader.kind != OpKind::kTile;
  return !one_to_one && reader.result()->type.ElementCount() != value->type.ElementCount();
}

// Adds the producers of the nodes of `group` that may join.
void AddProducers(const Graph& graph, const ReaderMap& readers, const Node& root,
                  PassReport& report, bool pools, NodeSet& group) {
  DenseMap<const Node*, int> chain;  // number of ops of the group from the node to the root
  NodeSet repeated;                  // whose elements are computed again, or read again and again
  // Walks from the root to its producers, so that all readers of a node are visited before the
  // node.
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i];
    const bool is_inside = group.count(&node) != 0;
    const Pool pool = pools ? PoolOf(node) : Pool::kNone;
    if (!is_inside && pool == Pool::kNone && !CanJoin(node)) continue;
    const Node* inside = nullptr;
    bool outside = IsOutput(graph, node.result());
    bool repeats = false, is_below_repeated = false;
    int longest = 0;
    if (auto found = readers.find(node.result()); found != readers.end()) {
      for (const Node* reader : found->second) {
        if (!group.count(reader)) {
          outside = true;
          continue;
        }
        inside = reader;
        repeats |= Repeats(*reader, node.result());
        is_below_repeated |= repeated.count(reader) != 0;
        longest = std::max(longest, chain[reader] + 1);
      }
    }
    if (!inside) continue;
    if (is_inside) {
      chain[&node] = longest;
      if (repeats || is_below_repeated) repeated.insert(&node);
      continue;
    }
    if (longest >= kLongestChain) {
      Refuse(report, readers, group, node,
             std::to_string(longest) + " ops follow it in one kernel already", "longer kernels");
      continue;
    }
    // Sums of neighbours of a graph's nodes, layer upon layer, would take exponentially long.
    const bool folds_many = pool == Pool::kColumns || Folds(node);
    const bool is_expensive = (GetOpDef(node.kind).algebra & kExpensive) != 0;
    if ((repeats && is_expensive) || ((repeats || is_below_repeated) && folds_many)) {
      Refuse(report, readers, group, node,
             "its elements would be computed again for every element that reads them",
             "a kernel that keeps them in shared memory");
      continue;
    }
    const bool stored = IsPointwise(node, root.result()->type.shape) && !node.operands.empty();
    if (outside && !stored) {
      Refuse(report, readers, group, node, "it is read elsewhere too, so it is stored anyway",
             "its other readers in the same kernel");
      continue;
    }
    group.insert(&node);
    chain[&node] = longest;
    if (repeats || is_below_repeated) repeated.insert(&node);
    if (outside && !IsConvex(graph, group)) {
      group.erase(&node);
      repeated.erase(&node);
      Refuse(report, readers, group, node, kBetween, kBetweenNeeded);
    }
  }
}

// `node` and the chain of pointwise nodes after it, each the only reader of the one before, if the
// last one is stored anyway because it is an output, or another kernel or several nodes read it.
// Otherwise empty.
NodeSet StoredChain(const Graph& graph, const ReaderMap& readers, const Node& node) {
  NodeSet chain = {&node};
  for (const Node* last = &node;;) {
    const auto found = readers.find(last->result());
    if (IsOutput(graph, last->result())) return chain;
    if (found == readers.end()) return {};
    if (found->second.size() > 1 || found->second[0]->kind == OpKind::kRegion) return chain;
    last = found->second[0];
    if (!IsPointwise(*last, node.result()->type.shape)) return {};
    chain.insert(last);
  }
}

// The operand of `node` if that is a slice whose shape differs from its operand's; otherwise null.
const Value* CutFrom(const Node& node) {
  const Node* slice = node.kind == OpKind::kReshape ? node.operand(0)->producer : nullptr;
  return slice && slice->kind == OpKind::kSlice ? slice->operand(0) : nullptr;
}

// Whether a loop over the elements of `node` reads or computes one of the values `read`, except
// constants, if its producers join it. Only the nearest producers are looked at.
bool ReadsOneOf(const ValueSet& read, const Node& node) {
  constexpr size_t kMostProducers = 64;
  ValueSet seen;
  std::vector<const Node*> work = {&node};
  while (!work.empty() && seen.size() < kMostProducers) {
    const Node* next = work.back();
    work.pop_back();
    for (const Value* operand : next->operands) {
      if (!operand || IsConstant(operand) || !seen.insert(operand).second) continue;
      if (read.count(operand) != 0) return true;
      if (operand->producer && CanJoin(*operand->producer)) work.push_back(operand->producer);
    }
  }
  return false;
}

// Whether a loop computes an element of `node` for every step, and not a part of them, as for a
// concatenation.
bool IsWholeLoop(const Node& node) {
  const OpClass op_class = GetOpDef(node.kind).op_class;
  return op_class == OpClass::kPointwise || op_class == OpClass::kGather || IsInPlace(node);
}

// The shape over which the loop of a whole node runs.
const Shape& ShapeOfLoop(const Node& node) {
  return (IsInPlace(node) ? node.operand(2) : node.result())->type.shape;
}

// Whether a node of `chain` folds elements, and the group reads what the chain makes: then the fold
// is a producer that AddProducers has left out.
bool FoldsFor(const NodeSet& group, const ReaderMap& readers, const NodeSet& chain) {
  const auto folds = [](const Node* node) { return Folds(*node); };
  const auto is_read = [&](const Node* node) {
    const auto found = readers.find(node->result());
    return group.count(node) != 0 ||
           (found != readers.end() &&
            std::any_of(found->second.begin(), found->second.end(),
                        [&](const Node* reader) { return group.count(reader) != 0; }));
  };
  return std::any_of(chain.begin(), chain.end(), folds) &&
         std::any_of(chain.begin(), chain.end(), is_read);
}

// Finds a sibling of the root's shape, and returns it with the chain after it: a node whose loop
// reads what the group reads as well, or a slice of a tensor of which the group reads another
// slice. Empty if there is none.
NodeSet FindSibling(const Graph& graph, const ReaderMap& readers, const Node& root,
                    const NodeSet& group) {
  ValueSet read;
  for (const Node* node : group) read.insert(node->operands.begin(), node->operands.end());
  for (const auto& node : graph.nodes) {
    if (group.count(node.get()) || ShapeOfLoop(*node) != ShapeOfLoop(root)) continue;
    const bool is_sibling = CutFrom(*node) ? read.count(CutFrom(*node)) != 0
                                           : IsWholeLoop(*node) && ReadsOneOf(read, *node);
    if (!is_sibling) continue;
    const NodeSet chain = StoredChain(graph, readers, *node);
    if (FoldsFor(group, readers, chain)) continue;
    NodeSet both = group;
    both.insert(chain.begin(), chain.end());
    if (!chain.empty() && IsConvex(graph, both)) return chain;
  }
  return {};
}

}  // namespace

NodeSet GrowLoopGroup(const Graph& graph, const Node& root, PassReport& report, bool pools) {
  NodeSet group = {&root};
  const auto readers = Readers(graph);
  AddProducers(graph, readers, root, report, pools, group);
  if (IsWholeLoop(root) || CutFrom(root)) {
    for (int i = 0; i < kMostSiblings; ++i) {
      const NodeSet siblings = FindSibling(graph, readers, root, group);
      if (siblings.empty()) break;
      group.insert(siblings.begin(), siblings.end());
      AddProducers(graph, readers, root, report, pools, group);
    }
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
