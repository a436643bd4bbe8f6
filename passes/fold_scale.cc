#include "passes/fold_scale.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/op_def.h"
#include "passes/constant_linear.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// A constant on the path, and its replacement.
struct Replacement {
  Node* node = nullptr;
  int operand = 0;
  MadeConstant made;
};

// Follows a scale from the place where it is applied up to the weights that absorb it, and makes
// the new constants on the way.
class ScalePath {
 public:
  ScalePath(const Graph& graph, const ReaderMap& readers, const PassOptions& options,
            Factors factors)
      : graph_(graph), readers_(readers), options_(options), factors_(std::move(factors)) {}

  // Whether all of `value` can be scaled along `axis`.
  bool Follow(const Value* value, int64_t axis) {
    Node* node = value->producer;
    const auto found = readers_.find(value);
    if (!node || found == readers_.end() || found->second.size() != 1 || IsOutput(graph_, value))
      return false;
    switch (node->kind) {
      case OpKind::kMatMul:
        return FollowProduct(*node, axis);
      case OpKind::kAdd:
        return FollowSum(*node, axis);
      case OpKind::kReshape:
        return FollowReshape(*node, axis);
      case OpKind::kTranspose:
        return Follow(node->operand(0), IsOneNumber() ? 0 : node->Ints("perm")[axis]);
      default:
        return false;
    }
  }
  const std::vector<Replacement>& replacements() const { return replacements_; }

 private:
  bool IsOneNumber() const { return factors_.size() == 1; }

  bool FollowProduct(Node& product, int64_t axis) {
    const int64_t rank = product.result()->type.rank();
    if (IsKeptAdapter(product, readers_, options_)) return false;
    if (const auto right = RightWeights(product); right && (IsOneNumber() || axis == rank - 1))
      return Scale(product, 1, *right);
    if (const auto left = LeftWeights(product); left && (IsOneNumber() || axis == rank - 2))
      return Scale(product, 0, *left);
    return IsOneNumber() && product.operand(0) != product.operand(1) &&
           Follow(product.operand(0), 0);
  }

  bool Scale(Node& product, int operand, const ConstantMatrix& weights) {
    if (readers_.at(product.operand(operand)).size() != 1) return false;
    std::optional<MadeConstant> scaled = Scaled(weights, {1.0}, factors_);
    if (!scaled) return false;
    replacements_.push_back({&product, operand, *std::move(scaled)});
    return true;
  }

  // Scales the constant addend, and follows the other operand.
  bool FollowSum(Node& sum, int64_t axis) {
    const int constant = Payload(sum.operand(0)) ? 0 : 1;
    const Value* rest = sum.operand(1 - constant);
    const auto scaled = ScaledAddend(sum.operand(constant), sum.result()->type, axis);
    if (!scaled || rest->type != sum.result()->type) return false;
    replacements_.push_back({&sum, constant, *scaled});
    return Follow(rest, axis);
  }

  std::optional<MadeConstant> ScaledAddend(const Value* addend, const TensorType& type,
                                           int64_t axis) const {
    const TensorData* data = Payload(addend);
    if (!data || !IsFloat(data->dtype())) return std::nullopt;
    TensorData scaled(data->dtype(), data->dims());
    Recipe recipe;
    Value* product = nullptr;
    if (IsOneNumber()) {
      product = recipe.Mul(recipe.Exact(addend), factors_.In(recipe, {}));
      for (int64_t i = 0; i < data->element_count(); ++i)
        scaled.SetDouble(i, data->GetDouble(i) * factors_[0]);
    } else {
      const auto values = FactorsAlong(addend, axis, type.rank());
      if (!values) return std::nullopt;
      std::vector<int64_t> dims(type.rank() - axis, 1);
      dims[0] = static_cast<int64_t>(factors_.size());
      scaled = TensorData(data->dtype(), dims);
      for (int64_t i = 0; i < dims[0]; ++i) scaled.SetDouble(i, FactorAt(*values, i) * factors_[i]);
      std::vector<int64_t> own(dims.size(), 1);
      own[0] = static_cast<int64_t>(values->size());
      product = recipe.Mul(values->In(recipe, own), factors_.In(recipe, dims));
    }
    for (int64_t i = 0; i < scaled.element_count(); ++i) {
      if (!std::isfinite(scaled.GetDouble(i))) return std::nullopt;
    }
    return recipe.Finish(product, std::move(scaled));
  }

  bool FollowReshape(const Node& reshape, int64_t axis) {
    const Shape& outer = reshape.result()->type.shape;
    const Shape& inner = reshape.operand(0)->type.shape;
    if (IsOneNumber()) return Follow(reshape.operand(0), 0);
    const Expr before = Product(Shape(outer.begin(), outer.begin() + axis));
    for (size_t i = 0; i < inner.size(); ++i) {
      if (inner[i] == outer[axis] &&
          Product(Shape(inner.begin(), inner.begin() + static_cast<int64_t>(i))) == before)
        return Follow(reshape.operand(0), static_cast<int64_t>(i));
    }
    return false;
  }

  const Graph& graph_;
  const ReaderMap& readers_;
  const PassOptions& options_;
  Factors factors_;
  std::vector<Replacement> replacements_;
};

void Replace(Graph& graph, const Replacement& replacement, const Node& cause,
             const std::string& suffix) {
  Node& node = *replacement.node;
  AddProvenance(node, cause);
  SetConstant(graph, node, replacement.operand, replacement.made,
              node.operand(replacement.operand)->name + suffix);
}

// Replaces `node` by `value`, which takes its name.
void GiveWay(Graph& graph, Node& node, Value* value) {
  std::swap(value->name, node.result()->name);
  graph.ReplaceAllUses(node.result(), value);
}

// For y = l * s or y = l / s with a constant s, scales the layer l instead.
bool FoldIntoLayer(Graph& graph, const ReaderMap& readers, Node& node, const PassOptions& options) {
  if (node.kind != OpKind::kMul && node.kind != OpKind::kDiv) return false;
  const int constant = node.kind == OpKind::kMul && Payload(node.operand(0)) ? 0 : 1;
  Value* scaled = node.operands[1 - constant];
  const TensorType& type = node.result()->type;
  if (scaled->type != type || type.rank() == 0) return false;
  for (int64_t axis = type.rank() - 1; axis >= 0; --axis) {
    auto factors = FactorsAlong(node.operand(constant), axis, type.rank());
    if (!factors || !AllFinite(*factors)) continue;
    if (node.kind == OpKind::kDiv) factors->Invert();
    if (!AllFinite(*factors) || std::count(factors->begin(), factors->end(), 0.0) != 0)
      return false;
    ScalePath path(graph, readers, options, *std::move(factors));
    if (!path.Follow(scaled, axis)) return false;
    for (const Replacement& replacement : path.replacements())
      Replace(graph, replacement, node, "_scaled");
    GiveWay(graph, node, scaled);
    return true;
  }
  return false;
}

// Rewrites l + c + o, where l is a product and c and o are constants, as l + (c + o).
bool JoinAddends(Graph& graph, const ReaderMap& readers, Node& node) {
  if (node.kind != OpKind::kAdd) return false;
  const int constant = Payload(node.operand(0)) ? 0 : 1;
  Value* inner = node.operands[1 - constant];
  Node* sum = inner->producer;
  if (!sum || sum->kind != OpKind::kAdd || inner->type != node.result()->type) return false;
  if (readers.at(inner).size() != 1 || IsOutput(graph, inner)) return false;
  const int inner_constant = Payload(sum->operand(0)) ? 0 : 1;
  const Value* product = sum->operand(1 - inner_constant);
  if (product->type != inner->type) return false;
  while (product->producer && product->producer->kind == OpKind::kReshape)
    product = product->producer->operand(0);
  if (!product->producer || product->producer->kind != OpKind::kMatMul) return false;
  const int64_t rank = inner->type.rank();
  for (int64_t axis = rank - 1; axis >= 0; --axis) {
    const auto c = FactorsAlong(sum->operand(inner_constant), axis, rank);
    const auto o = FactorsAlong(node.operand(constant), axis, rank);
    if (!c || !o) continue;
    std::vector<int64_t> dims(rank - axis, 1);
    dims[0] = static_cast<int64_t>(std::max(c->size(), o->size()));
    TensorData joined(node.operand(constant)->type.dtype, dims);
    for (int64_t i = 0; i < dims[0]; ++i) {
      joined.SetDouble(i, FactorAt(*c, i) + FactorAt(*o, i));
      if (!std::isfinite(joined.GetDouble(i))) return false;
    }
    Recipe recipe;
    const auto in_recipe = [&](const Factors& factors) {
      std::vector<int64_t> own(dims.size(), 1);
      own[0] = static_cast<int64_t>(factors.size());
      return factors.In(recipe, own);
    };
    Value* both = recipe.Add(in_recipe(*c), in_recipe(*o));
    Replace(graph, {sum, inner_constant, recipe.Finish(both, std::move(joined))}, node, "_shifted");
    GiveWay(graph, node, inner);
    return true;
  }
  return false;
}

}  // namespace

Result<bool> FoldScale(Graph& graph, const PassOptions& options, PassReport&) {
  bool changed = false;
  ReaderMap readers = Readers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = *graph.nodes[i];
    if (!FoldIntoLayer(graph, readers, node, options) && !JoinAddends(graph, readers, node))
      continue;
    changed = true;
    RemoveDeadNodes(graph);
    readers = Readers(graph);
    i = static_cast<size_t>(-1);  // the nodes moved: look again from the first
  }
  return changed;
}

}  // namespace fusec
