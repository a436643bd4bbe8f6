#include "compiler/driver/index_limits.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/ops/symbolic_contents.h"

namespace fusec {

namespace {

class LimitFinder {
 public:
  explicit LimitFinder(const Graph& graph) : graph_(graph), ranges_(graph.SymbolRanges()) {}

  void Find() {
    // From the end, so that all readers of a value have had their say.
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = *graph_.nodes[i];
      LimitIndices(node);
      const auto found = limits_.find(node.result());
      if (found != limits_.end()) PassOn(node, found->second);
    }
  }

  std::map<std::string, Expr> limits() const {
    std::map<std::string, Expr> by_name;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const auto found = limits_.find(graph_.inputs[i].get());
      if (found != limits_.end()) by_name.emplace(graph_.input_names[i], found->second);
    }
    return by_name;
  }
  std::set<std::string> ascending() const {
    std::set<std::string> names;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      if (ascending_.count(graph_.inputs[i].get())) names.insert(graph_.input_names[i]);
    }
    return names;
  }

 private:
  void Limit(const Value* value, const Expr& limit) {
    if (!IsInteger(value->type.dtype)) return;
    const auto [place, fresh] = limits_.emplace(value, limit);
    if (!fresh) place->second = Min(place->second, limit, ranges_);
  }

  void LimitIndices(const Node& node) {
    switch (node.kind) {
      case OpKind::kGather:
      case OpKind::kGatherElements:
      case OpKind::kScatterElements:
        return Limit(node.operand(1), node.operand(0)->type.shape[node.Int("axis")]);
      case OpKind::kSegmentReduce:  // bounds: all rows may be left out
        for (int i = 1; i < static_cast<int>(node.operands.size()); ++i) {
          Limit(node.operand(i), node.operand(0)->type.shape[0] + 1);
          ascending_.insert(node.operand(i));
        }
        return;
      case OpKind::kCast:
        // Integers of rank 2 and more that are calculated with are masks, as a rule, and masks add
        // (1 - mask) * -3.4e38 to scores: any other value would be an infinity.
        if (node.operand(0)->type.rank() >= 2 && IsFloat(node.result()->type.dtype)) {
          Limit(node.operand(0), 2);
        }
        return;
      case OpKind::kGatherND:
      case OpKind::kScatterND: {
        const int64_t first = node.Has("batch_dims") ? node.Int("batch_dims") : 0;
        const Shape& data = node.operand(0)->type.shape;
        const auto count = node.operand(1)->type.shape.back().AsConstant();
        for (int64_t i = 0; count && i < *count; ++i) {
          Limit(node.operand(1), data[first + i]);
        }
        return;
      }
      default:
        return;
    }
  }

  // Smallest and largest element of a value that is known at compile time.
  std::optional<std::pair<int64_t, int64_t>> Extent(const Value* value) const {
    std::vector<int64_t> elements;
    if (value->producer && value->producer->kind == OpKind::kConstant) {
      const TensorData& data = value->producer->constant;
      if (data.bytes() == nullptr) return std::nullopt;
      for (int64_t i = 0; i < data.element_count(); ++i) elements.push_back(data.GetInt(i));
    } else if (const auto contents = SymbolicContents(value, ranges_)) {
      for (const Expr& element : *contents) {
        const auto number = element.AsConstant();
        if (!number) return std::nullopt;
        elements.push_back(*number);
      }
    }
    if (elements.empty()) return std::nullopt;
    const auto [least, greatest] = std::minmax_element(elements.begin(), elements.end());
    return std::pair(*least, *greatest);
  }

  // What `node`'s operands must stay below for its result to stay below `limit`.
  void PassOn(const Node& node, const Expr& limit) {
    switch (node.kind) {
      case OpKind::kCast:
      case OpKind::kExpand:
      case OpKind::kGather:
      case OpKind::kGatherElements:
      case OpKind::kGatherND:
      case OpKind::kIdentity:
      case OpKind::kReshape:
      case OpKind::kSlice:
      case OpKind::kTile:
      case OpKind::kTranspose:
        if (ascending_.count(node.result())) ascending_.insert(node.operand(0));
        return Limit(node.operand(0), limit);
      case OpKind::kConcat:
      case OpKind::kMax:
        for (const Value* operand : node.operands) {
          if (ascending_.count(node.result())) ascending_.insert(operand);
          Limit(operand, limit);
        }
        return;
      case OpKind::kWhere:
        Limit(node.operand(1), limit);
        return Limit(node.operand(2), limit);
      case OpKind::kAdd:
      case OpKind::kSub:
      case OpKind::kMul:
      case OpKind::kDiv:
        return PassOnArithmetic(node, limit);
      default:
        return;
    }
  }

  void PassOnArithmetic(const Node& node, const Expr& limit) {
    const bool commutes = node.kind == OpKind::kAdd || node.kind == OpKind::kMul;
    for (int side = 0; side < (commutes ? 2 : 1); ++side) {
      const auto other = Extent(node.operand(1 - side));
      if (!other) continue;
      const auto [least, greatest] = *other;
      const Value* operand = node.operand(side);
      if (node.kind == OpKind::kAdd) Limit(operand, limit - greatest);
      if (node.kind == OpKind::kSub) Limit(operand, limit + least);
      if (node.kind == OpKind::kMul && least > 0) Limit(operand, CeilDiv(limit, greatest, ranges_));
      if (node.kind == OpKind::kDiv && least > 0) Limit(operand, limit * least);
    }
  }

  const Graph& graph_;
  const Ranges ranges_;
  std::map<const Value*, Expr> limits_;  // looked up, never iterated
  std::set<const Value*> ascending_;     // looked up, never iterated
};

}  // namespace

std::map<std::string, Expr> IndexLimits(const Graph& graph) {
  LimitFinder finder(graph);
  finder.Find();
  return finder.limits();
}

std::set<std::string> AscendingInputs(const Graph& graph) {
  LimitFinder finder(graph);
  finder.Find();
  return finder.ascending();
}

}  // namespace fusec
