#include "passes/fold_affine.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/op_def.h"
#include "passes/constant_linear.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// tail = x * scale + shift, along the last axis.
struct Affine {
  Value* x = nullptr;
  Factors scale = {1.0};
  Factors shift = {0.0};
  std::vector<const Node*> nodes;
};

// x * g or x / g.
std::optional<Affine> MatchScale(const Node& node) {
  if (node.kind != OpKind::kMul && node.kind != OpKind::kDiv) return std::nullopt;
  const int constant = node.kind == OpKind::kMul && Payload(node.operand(0)) ? 0 : 1;
  Value* x = node.operands[1 - constant];
  const int64_t rank = node.result()->type.rank();
  auto scale = FactorsAlong(node.operand(constant), rank - 1, rank);
  if (!scale || x->type != node.result()->type) return std::nullopt;
  if (node.kind == OpKind::kDiv) scale->Invert();
  if (!AllFinite(*scale)) return std::nullopt;
  return Affine{x, *std::move(scale), {0.0}, {&node}};
}

// Whether `value` is made by dividing each row by one number.
bool IsNormalized(const Value* value) {
  const Node* div = value->producer;
  return div && div->kind == OpKind::kDiv && div->operand(0)->type == value->type &&
         !Payload(div->operand(1)) && div->operand(1)->type.rank() > 0 &&
         div->operand(1)->type.shape.back().IsConstant(1);
}

std::optional<Affine> MatchAffine(const Graph& graph, const ReaderMap& readers, const Node& node) {
  if (node.kind != OpKind::kAdd) return MatchScale(node);
  const int constant = Payload(node.operand(0)) ? 0 : 1;
  Value* inner = node.operands[1 - constant];
  const int64_t rank = node.result()->type.rank();
  auto shift = FactorsAlong(node.operand(constant), rank - 1, rank);
  if (!shift || inner->type != node.result()->type || !AllFinite(*shift)) return std::nullopt;
  std::optional<Affine> affine;
  if (inner->producer && HasOneReader(graph, readers, inner)) affine = MatchScale(*inner->producer);
  if (!affine && IsNormalized(inner)) affine = Affine{inner};
  if (!affine) return std::nullopt;
  affine->shift = *std::move(shift);
  affine->nodes.push_back(&node);
  return affine;
}

// Collects the products that read `value`; false if anything else does.
bool FindLayers(const Graph& graph, const ReaderMap& readers, const PassOptions& options,
                const Value* value, std::vector<Node*>& layers) {
  const auto found = readers.find(value);
  if (found == readers.end() || IsOutput(graph, value)) return false;
  for (Node* reader : found->second) {
    const bool is_view = reader->kind == OpKind::kReshape || reader->kind == OpKind::kCast;
    if (is_view) {
      const TensorType& type = reader->result()->type;
      if (!IsFloat(type.dtype) || type.rank() == 0 || type.shape.back() != value->type.shape.back())
        return false;
      if (!FindLayers(graph, readers, options, reader->result(), layers)) return false;
      continue;
    }
    if (!RightWeights(*reader) || reader->operand(0) != value ||
        !HasOneReader(graph, readers, reader->operand(1)) ||
        IsKeptAdapter(*reader, readers, options))
      return false;
    layers.push_back(reader);
  }
  return true;
}

// The new weights of a layer, and the shift that is added to its result.
struct NewLayer {
  Node* product = nullptr;
  MadeConstant weights;
  ResultShift shift;
};

std::optional<NewLayer> Rewritten(const Graph& graph, const ReaderMap& readers, Node& product,
                                  const Affine& affine) {
  auto weights = Scaled(*RightWeights(product), affine.scale, {1.0});
  auto shift = ShiftOfResult(graph, readers, product, affine.shift);
  if (!weights || !shift) return std::nullopt;
  return NewLayer{&product, *std::move(weights), *std::move(shift)};
}

void Rewrite(Graph& graph, const NewLayer& layer, const Affine& affine) {
  Node& product = *layer.product;
  for (const Node* node : affine.nodes) AddProvenance(product, *node);
  const std::string name = product.operand(1)->name;
  SetConstant(graph, product, 1, layer.weights, name + "_scaled");
  ShiftResult(graph, product, layer.shift, name + "_shift");
}

bool FoldInto(Graph& graph, const ReaderMap& readers, const PassOptions& options, Node& tail) {
  const bool may_match =
      tail.kind == OpKind::kMul || tail.kind == OpKind::kDiv ||
      (tail.kind == OpKind::kAdd && (Payload(tail.operand(0)) || Payload(tail.operand(1))));
  if (!may_match || tail.result()->type.rank() == 0) return false;
  const auto affine = MatchAffine(graph, readers, tail);
  std::vector<Node*> products;
  if (!affine || !FindLayers(graph, readers, options, tail.result(), products)) return false;
  std::vector<NewLayer> layers;
  for (Node* product : products) {
    auto layer = Rewritten(graph, readers, *product, *affine);
    if (!layer) return false;
    layers.push_back(*std::move(layer));
  }
  if (layers.empty()) return false;
  for (const NewLayer& layer : layers) Rewrite(graph, layer, *affine);
  if (IsNormalized(affine->x))
    affine->x->name = graph.UniqueName(tail.result()->name + "_unscaled");
  graph.ReplaceAllUses(tail.result(), affine->x);
  return true;
}

}  // namespace

Result<bool> FoldAffine(Graph& graph, const PassOptions& options, PassReport&) {
  bool changed = false;
  ReaderMap readers = Readers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!FoldInto(graph, readers, options, *graph.nodes[i])) continue;
    changed = true;
    RemoveDeadNodes(graph);
    readers = Readers(graph);
    i = static_cast<size_t>(-1);  // the nodes moved: look again from the first
  }
  return changed;
}

}  // namespace fusec
