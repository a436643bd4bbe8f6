#include "passes/fuse_row_reduction.h"

#include <algorithm>
#include <utility>

#include "compiler/index/variables.h"
#include "compiler/ir/op_def.h"
#include "passes/access_probe.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// Each reduction that depends on another one adds a pass over the row, which computes again what
// earlier passes computed. The text and the time of a kernel therefore grow with the square of the
// number of passes. Softmax and layer normalization have two passes each.
constexpr int kMostPasses = 8;
// The most ops of one kernel: planners recurse over them, and this pass tries them one by one.
constexpr size_t kMostOps = 256;

bool IsElementwise(const Node& node) {
  if (Folds(node)) return false;  // every pass over the row would compute the fold again
  const OpClass op_class = GetOpDef(node.kind).op_class;
  return op_class == OpClass::kPointwise || op_class == OpClass::kView ||
         op_class == OpClass::kGather;
}

// The group around one reduction, while it grows.
class RowGroup {
 public:
  RowGroup(const Graph& graph, const Node& seed) : graph_(graph), readers_(Readers(graph)) {
    nodes_.insert(&seed);
    space_ = seed.operand(0)->type.shape;
    axes_ = seed.Ints("axes");
    const Ranges ranges = graph.SymbolRanges();
    for (size_t axis = 0; axis < space_.size(); ++axis) {
      const bool reduced =
          std::find(axes_.begin(), axes_.end(), static_cast<int64_t>(axis)) != axes_.end();
      const Expr coordinate =
          space_[axis].IsConstant(1) ? Expr(0) : Variable("axis_" + std::to_string(axis));
      full_.push_back(coordinate);
      if (!reduced) {
        row_.push_back(coordinate);
        kept_.push_back(space_[axis]);
      }
    }
  }

  void Grow() {
    bool grew = true;
    while (grew) {
      grew = false;
      for (const auto& node : graph_.nodes) {
        if (nodes_.count(node.get()) || !MayJoin(*node)) continue;
        nodes_.insert(node.get());
        if (WhyTooLong().empty() && IsConvex(graph_, nodes_) && WhyIllegal().empty())
          grew = true;
        else
          nodes_.erase(node.get());
      }
    }
  }

  // Reports for every neighbor that is in no region why it stayed out.
  void ExplainEnds(PassReport& report) {
    for (const auto& node : graph_.nodes) {
      const bool is_settled = node->kind == OpKind::kConstant || node->kind == OpKind::kRegion;
      if (nodes_.count(node.get()) || is_settled) continue;
      const auto [reason, needed] = WhyOutside(*node);
      Refuse(report, readers_, nodes_, *node, reason, needed);
    }
  }

  const NodeSet& nodes() const { return nodes_; }

 private:
  bool MayJoin(const Node& node) const {
    if (IsReduction(node)) {
      const bool follows =
          std::any_of(node.operands.begin(), node.operands.end(),
                      [&](const Value* v) { return v->producer && nodes_.count(v->producer); });
      const GroupReaders readers = ReadersOf(graph_, readers_, nodes_, node);
      const bool feeds = readers.inside && !readers.outside;
      return (follows || feeds || SharesOperand(node)) && node.operand(0)->type.shape == space_ &&
             node.Ints("axes") == axes_;
    }
    if (!IsElementwise(node)) return false;
    const bool follows =
        std::any_of(node.operands.begin(), node.operands.end(),
                    [&](const Value* v) { return v && v->producer && nodes_.count(v->producer); });
    return follows || Feeds(node);
  }

  bool SharesOperand(const Node& node) const {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const Node* member) {
      return IsReduction(*member) && ShowTheSame(member->operand(0), node.operand(0));
    });
  }

  // Producers join if the group is their only reader, or if they are pointwise on the row's
  // elements; in that case their result is also stored.
  bool Feeds(const Node& node) const {
    const GroupReaders readers = ReadersOf(graph_, readers_, nodes_, node);
    const bool stored =
        GetOpDef(node.kind).op_class == OpClass::kPointwise && node.result()->type.shape == space_;
    return readers.inside && (!readers.outside || stored);
  }

  std::pair<std::string, std::string> WhyOutside(const Node& node) {
    const std::string text = GetOpDef(node.kind).text;
    if (IsReduction(node)) {
      return {
          text + " reduces other axes or another shape than the reduction that the kernel walks",
          "a kernel that walks the data twice, in two orders"};
    }
    if (!IsElementwise(node)) {
      return {text + " is not a pointwise op", "a kernel of a class that has both"};
    }
    if (!MayJoin(node)) {
      return {"its result is read elsewhere too, so it is stored anyway",
              "its other readers in the same kernel"};
    }
    nodes_.insert(&node);
    const std::string too_long = WhyTooLong();
    const bool convex = IsConvex(graph_, nodes_);
    const std::string why = convex ? WhyIllegal() : "";
    nodes_.erase(&node);
    if (!too_long.empty()) return {too_long, "longer kernels"};
    if (!convex) return {kBetween, kBetweenNeeded};
    return {why, "a kernel that waits until all rows are reduced"};
  }

  // Why the group would be too long for one kernel; empty if it is not.
  std::string WhyTooLong() const {
    if (nodes_.size() > kMostOps)
      return std::to_string(kMostOps) + " ops are in that kernel already";
    DenseMap<const Node*, int> passes;  // that must have ended before a node's result is known
    for (const auto& node : graph_.nodes) {
      if (!nodes_.count(node.get())) continue;
      int& ended = passes[node.get()] = 0;
      for (const Value* operand : node->operands) {
        const auto found = operand ? passes.find(operand->producer) : passes.end();
        if (found != passes.end()) ended = std::max(ended, found->second);
      }
      if (IsReduction(*node) && ++ended > kMostPasses) {
        return std::to_string(kMostPasses) +
               " reductions that wait for one another are in that kernel already";
      }
    }
    return "";
  }

  std::string WhyIllegal() const {
    const std::string other_row = "it reads reduced values of other rows";
    AccessProbe probe(nodes_, graph_.SymbolRanges());
    for (size_t axis = 0; axis < space_.size(); ++axis) {
      if (auto symbol = full_[axis].AsSymbol()) probe.ranges().Set(*symbol, 0, space_[axis] - 1);
    }
    for (const Node* node : nodes_) {
      if (IsReduction(*node)) probe.Expect(node->result(), ResultIndex(*node));
    }
    const Expr element = Linearize(full_, space_, probe.ranges());
    const Expr row = Linearize(row_, kept_, probe.ranges());
    for (const Node* node : nodes_) {
      if (IsReduction(*node)) {
        if (!probe.Follows(node->operand(0), full_)) return other_row;
        continue;
      }
      for (const auto& result : node->results) {
        if (!ReadersOf(graph_, readers_, nodes_, result.get()).outside) continue;
        const Shape& shape = result->type.shape;
        const bool per_row = Product(shape) == Product(kept_);
        if (!per_row && Product(shape) != Product(space_)) {
          return "%" + result->name +
                 " has neither one element per row nor one per reduced element";
        }
        if (!probe.Follows(result.get(),
                           Delinearize(per_row ? row : element, shape, probe.ranges())))
          return other_row;
      }
    }
    return "";
  }

  Exprs ResultIndex(const Node& reduction) const {
    if (reduction.Int("keepdims") == 0) return row_;
    Exprs index = full_;
    for (const int64_t axis : axes_) index[axis] = 0;
    return index;
  }

  const Graph& graph_;
  ReaderMap readers_;
  NodeSet nodes_;
  Shape space_, kept_;
  std::vector<int64_t> axes_;
  Exprs full_, row_;
};

}  // namespace

Result<bool> FuseRowReduction(Graph& graph, const PassOptions&, PassReport& report) {
  bool changed = false;
  while (true) {
    const Node* seed = nullptr;
    for (const auto& node : graph.nodes) {
      if (IsReduction(*node)) {
        seed = node.get();
        break;
      }
    }
    if (!seed) return changed;
    RowGroup group(graph, *seed);
    group.Grow();
    group.ExplainEnds(report);
    MakeRegion(graph, group.nodes(), RegionClass::kRowReduction);
    changed = true;
  }
}

}  // namespace fusec
