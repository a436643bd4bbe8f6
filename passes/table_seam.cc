#include "passes/table_seam.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "compiler/ir/op_def.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// Larger constants count as tables or weights, and are not copied to every machine that has the
// inputs.
constexpr int64_t kMostBytesOfConstant = 64 << 10;

bool IsSmallConstant(const Value* value) {
  return IsConstant(value) &&
         value->type.Bytes().AsConstant().value_or(INT64_MAX) <= kMostBytesOfConstant;
}

// Whether an element of the result costs no more than some loads and function calls.
bool IsCheap(const Node& node) {
  const OpClass op_class = GetOpDef(node.kind).op_class;
  return node.results.size() == 1 && node.kind != OpKind::kSlotMatMul &&
         (op_class == OpClass::kPointwise || op_class == OpClass::kView ||
          op_class == OpClass::kGather || op_class == OpClass::kReduction);
}

// Whether the node is an integer op of the kind that places the rows that a mask or lengths choose.
// Integer results are the same on every machine.
bool PlacesIntegers(const Node& node) {
  switch (node.kind) {
    case OpKind::kCumSum:
    case OpKind::kScatterElements:
    case OpKind::kScatterND:
    case OpKind::kTopK:
      return std::none_of(node.operands.begin(), node.operands.end(), [](const Value* operand) {
        return operand != nullptr && IsFloat(operand->type.dtype);
      });
    default:
      return false;
  }
}

bool BeginsWith(ShapeRef shape, ShapeRef prefix) {
  return shape.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), shape.begin());
}

bool IsSumOrMean(const Node& node) {
  if (node.kind == OpKind::kSegmentReduce) return node.Get<std::string>("mode") != "max";
  return node.kind == OpKind::kReduceSum || node.kind == OpKind::kReduceMean;
}

}  // namespace

SeamFinder::SeamFinder(const Graph& graph, const std::set<std::string>& tables,
                       std::map<std::string, int64_t> sizes)
    : graph_(graph), sizes_(std::move(sizes)), readers_(Readers(graph)) {
  for (const auto& input : graph.inputs) beside_inputs_.insert(input.get());
  for (const auto& node : graph.nodes) {
    if (!IsCheap(*node) && !PlacesIntegers(*node)) continue;
    const bool is_beside =
        std::all_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
          if (operand == nullptr || beside_inputs_.count(operand) != 0) return true;
          return IsSmallConstant(operand) && tables.count(operand->name) == 0;
        });
    if (!is_beside) continue;
    for (const auto& result : node->results) beside_inputs_.insert(result.get());
  }
}

// Finds the nodes that can be computed beside one table, and the seam among them.
class SeamFinder::Search {
 public:
  Search(const SeamFinder& finder, const std::vector<std::string>& constants, TableCut cut)
      : finder_(finder), constants_(constants.begin(), constants.end()), cut_(cut) {}

  TableSeam Run() {
    for (const auto& node : finder_.graph_.nodes) Visit(*node);
    if (!seam_.stays.empty()) return std::move(seam_);
    if (members_.empty()) seam_.stays = "no look-up reads it";
    std::map<int, std::vector<const Node*>> look_ups;  // by component, in the graph's order
    for (const Node* node : order_) look_ups[Root(members_.at(node).component)].push_back(node);
    for (auto& [component, nodes] : look_ups) DrawSeam(nodes);
    for (const Node* node : order_) {
      const std::string& name = node->result()->name;
      if (crossing_.count(name) == 0) continue;
      seam_.crossing.push_back(name);
      seam_.bytes = seam_.bytes + node->result()->type.Bytes();
    }
    return std::move(seam_);
  }

 private:
  struct Member {
    int component = 0;
    // The ids, if the node's rows are made row by row from the rows that these look up; null if
    // they are made from several rows.
    const Value* ids = nullptr;
  };

  bool IsTable(const Value* value) const {
    return value != nullptr && constants_.count(value->name) != 0;
  }

  const Member* MemberOf(const Value* value) const {
    if (value == nullptr || value->producer == nullptr) return nullptr;
    const auto found = members_.find(value->producer);
    return found == members_.end() ? nullptr : &found->second;
  }

  void Visit(const Node& node) {
    const bool reads_table = std::any_of(node.operands.begin(), node.operands.end(),
                                         [&](const Value* operand) { return IsTable(operand); });
    if (reads_table) return VisitLookUp(node);
    if (!IsCheap(node)) return;
    std::vector<const Member*> of_table;
    for (const Value* operand : node.operands) {
      const Member* member = MemberOf(operand);
      if (member != nullptr) of_table.push_back(member);
      const bool is_there = operand == nullptr || member != nullptr ||
                            finder_.IsBesideInputs(operand) || IsSmallConstant(operand);
      if (!is_there) return;
    }
    if (of_table.empty()) return;
    Member made{of_table.front()->component, RowsOf(node, of_table)};
    if (cut_ == TableCut::kRows && made.ids == nullptr && !IsLinear(node)) return;
    if (cut_ == TableCut::kColumns && !KeepsColumns(node)) return;
    for (const Member* other : of_table) components_[Root(other->component)] = Root(made.component);
    Add(node, made);
  }

  void VisitLookUp(const Node& node) {
    const Value* ids = node.operand(1);
    if (node.kind != OpKind::kGather || node.Int("axis") != 0 || !IsTable(node.operand(0)) ||
        node.operand(2) != nullptr) {
      seam_.stays = "not only gathers along its rows read it";
    } else if (!finder_.IsBesideInputs(ids)) {
      seam_.stays = "its ids are not computed from the inputs alone";
    } else if (cut_ == TableCut::kColumns && !HasPlainColumns(*node.operand(0))) {
      seam_.stays = "its rows are not stored column by column";
    } else {
      components_.push_back(static_cast<int>(components_.size()));
      Add(node, {components_.back(), ids});
      if (node.operand(0)->name == *constants_.begin())
        seam_.look_ups = seam_.look_ups + ids->type.ElementCount();
    }
  }

  void Add(const Node& node, const Member& member) {
    members_[&node] = member;
    order_.push_back(&node);
  }

  // The ids, if the node computes each row from the same row of its operands; otherwise null.
  const Value* RowsOf(const Node& node, ArrayRef<const Member*> of_table) const {
    const Value* ids = of_table.front()->ids;
    const bool are_equal = std::all_of(of_table.begin(), of_table.end(),
                                       [&](const Member* member) { return member->ids == ids; });
    if (!are_equal || ids == nullptr || !BeginsWith(node.result()->type.shape, ids->type.shape))
      return nullptr;
    switch (node.kind) {
      case OpKind::kUnpackInt4:
      case OpKind::kReshape:
        return ids;
      case OpKind::kSlice: {
        const auto& steps = node.Ints("steps");
        return std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step == 1; })
                   ? ids
                   : nullptr;
      }
      default:
        break;
    }
    if (GetOpDef(node.kind).op_class != OpClass::kPointwise) return nullptr;
    // An operand with fewer dims would be broadcast to rows of other ids.
    const bool are_aligned =
        std::all_of(node.operands.begin(), node.operands.end(), [&](const Value* operand) {
          return MemberOf(operand) == nullptr || operand->type.rank() == node.result()->type.rank();
        });
    return are_aligned ? ids : nullptr;
  }

  // Whether the node is linear in the values of the table: f(a + b) = f(a) + f(b).
  bool IsLinear(const Node& node) const {
    const auto is_of_table = [&](int operand) {
      return MemberOf(node.operand(operand)) != nullptr;
    };
    const auto count =
        std::count_if(node.operands.begin(), node.operands.end(),
                      [&](const Value* operand) { return MemberOf(operand) != nullptr; });
    switch (node.kind) {
      case OpKind::kMul:
        return count == 1;
      case OpKind::kDiv:
        return count == 1 && is_of_table(0);
      case OpKind::kNeg:
        return true;
      case OpKind::kAdd:
      case OpKind::kSub:
        return count == 2;
      case OpKind::kReshape:
      case OpKind::kTranspose:
      case OpKind::kSlice:
      case OpKind::kExpand:
        return true;
      default:
        return IsSumOrMean(node) && count == 1 && is_of_table(0);
    }
  }

  bool HasPlainColumns(const Value& table) const {
    return constants_.size() == 1 && table.type.rank() == 2 && IsFloat(table.type.dtype);
  }

  // Whether each column of the result is computed only from the same column of values of the table,
  // and from values that have no columns.
  bool KeepsColumns(const Node& node) const {
    const TensorType& type = node.result()->type;
    if (type.rank() == 0) return false;
    for (const Value* operand : node.operands) {
      if (MemberOf(operand) != nullptr && operand->type.shape.back() != type.shape.back())
        return false;
    }
    const int64_t last = node.operand(0)->type.rank() - 1;
    switch (node.kind) {
      case OpKind::kReshape:
      case OpKind::kExpand:
        return true;
      case OpKind::kTranspose:
        return node.Ints("perm").back() == last;
      case OpKind::kSlice:
        return node.Get<Exprs>("starts").back() == 0 && node.Ints("steps").back() == 1;
      case OpKind::kReduceSum:
      case OpKind::kReduceMean:
      case OpKind::kReduceMax:
      case OpKind::kReduceMin: {
        const auto& axes = node.Ints("axes");
        return std::find(axes.begin(), axes.end(), last) == axes.end();
      }
      default:
        break;
    }
    if (GetOpDef(node.kind).op_class != OpClass::kPointwise) return false;
    return std::all_of(node.operands.begin(), node.operands.end(), [&](const Value* operand) {
      return operand == nullptr || MemberOf(operand) != nullptr || operand->type.rank() == 0 ||
             operand->type.shape.back() == 1;
    });
  }

  int Root(int component) const {
    while (components_[component] != component) component = components_[component];
    return component;
  }

  bool Crosses(const Node& node, const NodeSet& inside) const {
    if (IsOutput(finder_.graph_, node.result())) return true;
    const auto readers = finder_.readers_.find(node.result());
    return readers != finder_.readers_.end() &&
           std::any_of(readers->second.begin(), readers->second.end(),
                       [&](const Node* reader) { return inside.count(reader) == 0; });
  }

  // The bytes that cross if the first `count` nodes are computed beside the table.
  double BytesAcross(ArrayRef<const Node*> nodes, size_t count) const {
    const NodeSet inside(nodes.begin(), nodes.begin() + count);
    double bytes = 0;
    for (size_t i = 0; i < count; ++i) {
      if (!Crosses(*nodes[i], inside)) continue;
      const auto size = nodes[i]->result()->type.Bytes().Evaluate(finder_.sizes_);
      bytes += size ? static_cast<double>(*size) : 1e30;
    }
    return bytes;
  }

  // Draws the seam for look-ups whose results are combined beside the table, and for the nodes that
  // combine them.
  void DrawSeam(std::vector<const Node*>& nodes) {
    std::stable_partition(nodes.begin(), nodes.end(),
                          [&](const Node* node) { return IsTable(node->operand(0)); });
    size_t best = 0;
    double fewest = 0;
    for (size_t count = 1; count <= nodes.size(); ++count) {
      const bool is_whole = count == nodes.size() || !IsTable(nodes[count]->operand(0));
      const double bytes = is_whole ? BytesAcross(nodes, count) : 0;
      if (!is_whole || (best != 0 && bytes >= fewest)) continue;
      best = count;
      fewest = bytes;
    }
    const NodeSet inside(nodes.begin(), nodes.begin() + best);
    for (size_t i = 0; i < best; ++i) {
      const Node& node = *nodes[i];
      const bool crosses = Crosses(node, inside);
      if (crosses) crossing_.insert(node.result()->name);
      const Value* ids = members_.at(&node).ids;
      if (cut_ == TableCut::kColumns) seam_.by_columns.push_back(node.result()->name);
      if (cut_ == TableCut::kRows && ids != nullptr && (crosses || IsSummed(node, inside)))
        seam_.partial.push_back({node.result()->name, ids->name});
    }
  }

  // Whether a node beside the table combines several of these rows.
  bool IsSummed(const Node& rows, const NodeSet& inside) const {
    const auto readers = finder_.readers_.find(rows.result());
    return readers != finder_.readers_.end() &&
           std::any_of(readers->second.begin(), readers->second.end(), [&](const Node* reader) {
             return inside.count(reader) != 0 && members_.at(reader).ids == nullptr;
           });
  }

  const SeamFinder& finder_;
  const std::set<std::string> constants_;
  const TableCut cut_;
  std::map<const Node*, Member> members_;  // never iterated
  std::vector<const Node*> order_;         // the members, in graph order
  std::vector<int> components_;            // union-find: by component, its parent
  std::set<std::string> crossing_;
  TableSeam seam_;
};

TableSeam SeamFinder::Find(const std::vector<std::string>& constants, TableCut cut) const {
  return Search(*this, constants, cut).Run();
}

}  // namespace fusec
