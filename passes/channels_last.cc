#include "passes/channels_last.h"

#include <algorithm>
#include <numeric>

#include "compiler/ir/op_def.h"
#include "passes/graph_edit.h"
#include "passes/reorder_axes.h"

namespace fusec {

namespace {

constexpr int64_t kManyTimes = 4;  // elements of the operand per transposed element, at least
constexpr int kMostOps = 32;       // through which the order is propagated to producers or readers

// The permutation that moves the last axis directly behind the first `batch` axes.
std::vector<int64_t> LastAxisBehind(int64_t batch, int64_t rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + batch, perm.end() - 1, perm.end());
  return perm;
}

Shape InOrder(ShapeRef shape, ArrayRef<int64_t> perm) {
  Shape result;
  for (const int64_t axis : perm) result.push_back(shape[axis]);
  return result;
}

// Whether that permutation leaves the elements in place in memory: all axes between the first
// `batch` axes and the last one have one element, or the last axis has.
bool KeepsElements(ShapeRef shape, int64_t batch) {
  if (shape.empty() || shape.back().IsConstant(1)) return true;
  const int64_t last = static_cast<int64_t>(shape.size()) - 1;
  return Product(Shape(shape.begin() + std::clamp<int64_t>(batch, 0, last), shape.begin() + last))
      .IsConstant(1);
}

// The inverse: `turned` with the axes in their original order, as `shape`.
Value* TurnedBack(Builder& builder, Value* turned, int64_t batch, ShapeRef shape,
                  const std::string& name) {
  if (KeepsElements(shape, batch))
    return builder.Make(OpKind::kReshape, {turned}, {{"shape", Shape(shape)}}, name);
  const std::vector<int64_t> perm = InverseOf(LastAxisBehind(batch, turned->type.rank()));
  return builder.Make(OpKind::kTranspose, {turned}, {{"perm", perm}}, name);
}

// Whether the node is a reshape that keeps the first `batch` axes and the last one.
bool KeepsEnds(const Node& node, int64_t batch) {
  if (node.kind != OpKind::kReshape) return false;
  const Shape &from = node.operand(0)->type.shape, &to = node.result()->type.shape;
  const auto least = static_cast<size_t>(batch) + 1;
  return from.size() >= least && to.size() >= least && from.back() == to.back() &&
         std::equal(from.begin(), from.begin() + batch, to.begin());
}

// Whether the node is a view of its first operand, or of all, that can be made of operands in any
// order of axes.
bool IsViewInAnyOrder(const Node& node) {
  const bool unfolds_last =
      node.kind == OpKind::kUnfold && node.Int("axis") + 1 == node.operand(0)->type.rank();
  return unfolds_last || node.kind == OpKind::kSlice || node.kind == OpKind::kPad ||
         node.kind == OpKind::kConcat;
}

// The attributes of a reshape that KeepsEnds, a slice, a pad, a concatenation or a pointwise op for
// operands and a result whose axes are reordered by `perm`.
Attributes InOrder(const Node& node, ArrayRef<int64_t> perm) {
  Attributes attributes = node.attributes;
  for (const char* name : {"shape", "starts"}) {
    if (node.Has(name)) attributes[name] = InOrder(node.Get<Exprs>(name), perm);
  }
  if (node.kind == OpKind::kSlice) {
    std::vector<int64_t> steps;
    for (const int64_t axis : perm) steps.push_back(node.Ints("steps")[axis]);
    attributes["steps"] = steps;
  } else if (node.kind == OpKind::kPad) {
    const Exprs& pads = node.Get<Exprs>("pads");
    Exprs before = InOrder(Exprs(pads.begin(), pads.begin() + perm.size()), perm);
    const Exprs behind = InOrder(Exprs(pads.begin() + perm.size(), pads.end()), perm);
    before.insert(before.end(), behind.begin(), behind.end());
    attributes["pads"] = before;
  } else if (node.kind == OpKind::kConcat) {
    attributes["axis"] = InverseOf(perm)[node.Int("axis")];
  }
  return attributes;
}

// Whether the node reduces the last axis, and does so in a way that does not depend on the order of
// axes.
bool ReducesLastAxis(const Node& node) {
  if (!IsReduction(node) || node.kind == OpKind::kArgMax || node.kind == OpKind::kArgMin)
    return false;
  const auto& axes = node.Ints("axes");
  return std::find(axes.begin(), axes.end(), node.operand(0)->type.rank() - 1) != axes.end();
}

// Rewrites values to the other order of axes ("turned"): the last axis moves directly behind the
// first `batch` axes, and the others keep their order.
class Turner {
 public:
  explicit Turner(Graph& graph) : graph_(graph), readers_(Readers(graph)) {}

  bool Run() {
    return ReplaceResults(
        graph_, [this](const Node& node, Builder& builder) { return Rewritten(node, builder); });
  }

 private:
  using Key = std::pair<const Value*, int64_t>;

  // The replacement of the node's result; null if the node stays as it is.
  Value* Rewritten(const Node& node, Builder& builder) {
    if (node.kind == OpKind::kMatMul) return ProductOfRows(node, builder);
    for (const Value* operand : node.operands) {
      const auto found = behind_.find(operand);
      if (found == behind_.end()) continue;
      const int64_t batch = found->second;
      if (IsReduction(node)) return Reduced(node, batch, builder);
      if (!IsFree(node, batch)) continue;
      return Behind(MakeTurned(node, batch, builder), batch, node, builder);
    }
    return nullptr;
  }

  Value* ProductOfRows(const Node& node, Builder& builder) {
    Value *weights = node.operand(0), *matrices = node.operand(1);
    const int64_t rank = matrices->type.rank(), batch = rank - 2;
    if (!IsConstant(weights) || IsConstant(matrices) || weights->type.rank() != 2 || rank < 3 ||
        !IsFloat(node.result()->type.dtype))
      return nullptr;
    const bool has_rows = node.Int("transpose_b") != 0;
    const bool is_column = node.result()->type.shape.back().IsConstant(1);
    ValueSet seen;
    const int64_t transposed = (has_rows ? 0 : ElementsToTranspose(matrices, batch, 0, seen)) +
                               (is_column ? 0 : ElementsToTurnBack(node.result(), batch, 0, seen));
    if (kManyTimes * transposed > ElementsForOnes(graph_, matrices)) return nullptr;
    Value* rows = has_rows ? matrices : Turned(matrices, batch, 0, builder);
    Value* product = builder.Make(
        OpKind::kMatMul, {rows, weights},
        {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{1} - node.Int("transpose_a")}},
        node.result()->name);
    return Behind(product, batch, node, builder);
  }

  // Makes the node's result in its original order from `turned`, and records that it is `turned`.
  Value* Behind(Value* turned, int64_t batch, const Node& node, Builder& builder) {
    const Value& own = *node.result();
    Value* result = TurnedBack(builder, turned, batch, own.type.shape, own.name);
    std::swap(turned->name, node.result()->name);
    turned_[{result, batch}] = turned;
    behind_[result] = batch;
    return result;
  }

  Value* Reduced(const Node& node, int64_t batch, Builder& builder) {
    const Value* operand = node.operand(0);
    if (!ReducesLastAxis(node) || node.operands.size() != 1) return nullptr;
    const int64_t rank = operand->type.rank();
    std::vector<int64_t> axes;
    const std::vector<int64_t> order = LastAxisBehind(batch, rank);
    for (int64_t axis = 0; axis < rank; ++axis) {
      const auto& reduced = node.Ints("axes");
      if (std::find(reduced.begin(), reduced.end(), order[axis]) != reduced.end())
        axes.push_back(axis);
    }
    Attributes attributes = node.attributes;
    attributes["axes"] = axes;
    attributes["keepdims"] = int64_t{0};
    Value* sums =
        builder.Make(node.kind, {turned_.at({operand, batch})}, attributes, node.result()->name);
    std::swap(sums->name, node.result()->name);
    if (node.Int("keepdims") == 0) return sums;
    return builder.Make(OpKind::kReshape, {sums}, {{"shape", node.result()->type.shape}},
                        sums->name);
  }

  // Whether the node can be computed in the other order without transposing anything.
  bool IsFree(const Node& node, int64_t batch) const {
    const auto is_turned = [&](const Value* operand) {
      return turned_.count({operand, batch}) != 0;
    };
    if (node.kind == OpKind::kConcat)
      return std::all_of(node.operands.begin(), node.operands.end(), is_turned);
    if (KeepsEnds(node, batch) || IsViewInAnyOrder(node)) return is_turned(node.operand(0));
    const int64_t rank = node.results.size() == 1 ? node.result()->type.rank() : 0;
    return KeepsPlaces(node) && rank > batch &&
           std::all_of(node.operands.begin(), node.operands.end(), [&](const Value* operand) {
             return !operand || IsConstant(operand) || turned_.count({operand, batch}) != 0 ||
                    IsReshapedOnly(*operand, batch, rank);
           });
  }

  // Whether turning an operand of a result of `rank` axes leaves its elements in place.
  static bool IsReshapedOnly(const Value& operand, int64_t batch, int64_t rank) {
    return KeepsElements(operand.type.shape, batch - (rank - operand.type.rank()));
  }

  enum class Way { kDone, kReshape, kOps, kView, kTranspose };

  // How a value is brought into the other order.
  Way WayOf(const Value* value, int64_t batch, int ops) const {
    if (turned_.count({value, batch})) return Way::kDone;
    if (IsReshapedOnly(*value, batch, value->type.rank())) return Way::kReshape;
    const Node* node = value->producer;
    if (!node || node->results.size() != 1 || ops >= kMostOps) return Way::kTranspose;
    if (KeepsEnds(*node, batch)) return Way::kView;
    if (IsViewInAnyOrder(*node) && node->kind != OpKind::kConcat) {
      const bool is_cut = node->kind == OpKind::kSlice;  // more is turned than is read
      return !is_cut || turned_.count({node->operand(0), batch}) ? Way::kView : Way::kTranspose;
    }
    return KeepsPlaces(*node) && HasOneReader(graph_, readers_, value) ? Way::kOps
                                                                       : Way::kTranspose;
  }

  // How many elements must be transposed to turn `value`; each value counts once.
  int64_t ElementsToTranspose(const Value* value, int64_t batch, int ops, ValueSet& seen) const {
    switch (WayOf(value, batch, ops)) {
      case Way::kDone:
      case Way::kReshape:
        return 0;
      case Way::kView:
        // Windows are gathered from memory in any case.
        if (value->producer->kind == OpKind::kUnfold) return 0;
        return ElementsToTranspose(value->producer->operand(0), batch, ops + 1, seen);
      case Way::kTranspose:
        // Two transposes are one, or none.
        if (value->producer && value->producer->kind == OpKind::kTranspose) return 0;
        return IsConstant(value) || !seen.insert(value).second ? 0 : ElementsForOnes(graph_, value);
      case Way::kOps:
        break;
    }
    int64_t elements = 0;
    const int64_t rank = value->type.rank();
    for (const Value* operand : value->producer->operands) {
      if (!operand || IsReshapedOnly(*operand, batch, rank)) continue;
      if (operand->type.rank() == rank)
        elements += ElementsToTranspose(operand, batch, ops + 1, seen);
      else if (!IsConstant(operand) && seen.insert(operand).second)
        elements += ElementsForOnes(graph_, operand);
    }
    return elements;
  }

  // How many elements of `value` and of what is made from it must be brought back into their
  // original order for their readers, if `value` is computed in the other order; each value counts
  // once.
  int64_t ElementsToTurnBack(const Value* value, int64_t batch, int ops, ValueSet& seen) const {
    if (IsReshapedOnly(*value, batch, value->type.rank()) || !seen.insert(value).second) return 0;
    const auto found = readers_.find(value);
    int64_t elements = 0;
    bool is_needed = IsOutput(graph_, value) || ops >= kMostOps;
    if (found == readers_.end() || is_needed) return ElementsForOnes(graph_, value);
    for (const Node* reader : found->second) {
      const bool multiplies = reader->kind == OpKind::kMatMul && reader->operand(0) != value &&
                              IsConstant(reader->operand(0)) && reader->Int("transpose_b") == 0;
      if (multiplies || ReducesLastAxis(*reader) || reader->kind == OpKind::kTranspose) continue;
      if (KeepsEnds(*reader, batch) || IsViewInAnyOrder(*reader) || KeepsPlaces(*reader))
        elements += ElementsToTurnBack(reader->result(), batch, ops + 1, seen);
      else
        is_needed = true;
    }
    return elements + (is_needed ? ElementsForOnes(graph_, value) : 0);
  }

  // The value in the other order.
  Value* Turned(Value* value, int64_t batch, int ops, Builder& builder) {
    const Way way = WayOf(value, batch, ops);
    if (way == Way::kDone) return turned_.at({value, batch});
    const std::vector<int64_t> order = LastAxisBehind(batch, value->type.rank());
    const std::string name = value->name + "_channels_last";
    Value* turned = nullptr;
    switch (way) {
      case Way::kReshape:
        turned = builder.Make(OpKind::kReshape, {value},
                              {{"shape", InOrder(value->type.shape, order)}}, name);
        break;
      case Way::kTranspose:
        turned = builder.Make(OpKind::kTranspose, {value}, {{"perm", order}}, name);
        break;
      default:
        turned = MakeTurned(*value->producer, batch, builder, ops + 1);
        // The value in its original order has no other reader, so its name is free.
        if (HasOneReader(graph_, readers_, value)) std::swap(turned->name, value->name);
    }
    turned_[{value, batch}] = turned;
    return turned;
  }

  // The result of a node that KeepsPlaces, KeepsEnds or IsViewInAnyOrder in the other order.
  Value* MakeTurned(const Node& node, int64_t batch, Builder& builder, int ops = 0) {
    const int64_t rank = node.result()->type.rank();
    const Provenance provenance = builder.provenance();
    ValueList operands;
    for (Value* operand : node.operands) {
      if (operand && KeepsPlaces(node)) operand = WithRank(operand, rank, builder);
      const bool has_axes = operand && operand->type.rank() > 0;
      operands.push_back(has_axes ? Turned(operand, batch, ops, builder) : operand);
    }
    builder.set_provenance(node.provenance);
    Value* made =
        node.kind == OpKind::kUnfold
            ? Unfolded(node, operands[0], batch, builder)
            : builder.Make(node.kind, operands, InOrder(node, LastAxisBehind(batch, rank)),
                           node.result()->name);
    builder.set_provenance(provenance);
    return made;
  }

  // Windows of the last axis: of the turned operand [batch, o..., k..., rest...].
  static Value* Unfolded(const Node& node, Value* turned, int64_t batch, Builder& builder) {
    Attributes attributes = node.attributes;
    attributes["axis"] = batch;
    Value* windows = builder.Make(OpKind::kUnfold, {turned}, attributes, node.result()->name);
    std::vector<int64_t> perm(windows->type.rank());
    std::iota(perm.begin(), perm.end(), 0);
    std::rotate(perm.begin() + batch, perm.begin() + batch + 1, perm.end());
    return builder.Make(OpKind::kTranspose, {windows}, {{"perm", perm}}, node.result()->name);
  }

  // The operand with axes of one element added in front.
  static Value* WithRank(Value* operand, int64_t rank, Builder& builder) {
    Shape shape = operand->type.shape;
    if (static_cast<int64_t>(shape.size()) == rank) return operand;
    shape.insert(shape.begin(), rank - shape.size(), Expr(1));
    return builder.Make(OpKind::kReshape, {operand}, {{"shape", shape}}, operand->name);
  }

  Graph& graph_;
  const ReaderMap readers_;
  DenseMap<Key, Value*> turned_;            // by value and batch axes
  DenseMap<const Value*, int64_t> behind_;  // products and results made from them: `batch`
};

}  // namespace

Result<bool> ChannelsLast(Graph& graph, const PassOptions&, PassReport&) {
  return Turner(graph).Run();
}

}  // namespace fusec
