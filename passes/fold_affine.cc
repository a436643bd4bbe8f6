#include "passes/fold_affine.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/op_def.h"
#include "passes/constant_linear.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

using ReaderMap = std::map<const Value*, std::vector<Node*>>;

// tail = x * scale + shift, along the last axis.
struct Affine {
  Value* x = nullptr;
  Factors scale = {1.0};
  Factors shift = {0.0};
  std::vector<const Node*> nodes;
};

bool IsReadOnce(const Graph& graph, const ReaderMap& readers, const Value* value) {
  const auto found = readers.find(value);
  return found != readers.end() && found->second.size() == 1 && !IsOutput(graph, value);
}

// x * g or x / g.
std::optional<Affine> MatchScale(const Node& node) {
  if (node.kind != OpKind::kMul && node.kind != OpKind::kDiv) return std::nullopt;
  const int constant = node.kind == OpKind::kMul && Payload(node.operand(0)) ? 0 : 1;
  Value* x = node.operands[1 - constant];
  const int64_t rank = node.result()->type.rank();
  auto scale = FactorsAlong(node.operand(constant), rank - 1, rank);
  if (!scale || x->type != node.result()->type) return std::nullopt;
  if (node.kind == OpKind::kDiv) {
    for (double& factor : *scale) factor = 1 / factor;
  }
  if (!AllFinite(*scale)) return std::nullopt;
  return Affine{x, *std::move(scale), {0.0}, {&node}};
}

// A row divided by one number of its own.
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
  if (inner->producer && IsReadOnce(graph, readers, inner)) affine = MatchScale(*inner->producer);
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
        !IsReadOnce(graph, readers, reader->operand(1)) || IsKeptAdapter(*reader, readers, options))
      return false;
    layers.push_back(reader);
  }
  return true;
}

// A layer's new weights and, where the shift is not 0, what it adds to the result.
struct NewLayer {
  Node* product = nullptr;
  TensorData weights, addend;
  Node* bias = nullptr;  // the sum with a constant that takes the addend in
};

// c[n] + sum over k of shift[k] w[k, n]; nullopt if that is no number.
std::optional<TensorData> Addend(const ConstantMatrix& weights, const Factors& shift,
                                 const Factors& c) {
  TensorData addend(weights.data->dtype(), {weights.results()});
  for (int64_t n = 0; n < weights.results(); ++n) {
    double sum = 0;
    for (int64_t k = 0; k < weights.terms(); ++k) sum += FactorAt(shift, k) * weights.At(k, n);
    addend.SetDouble(n, FactorAt(c, n) + sum);
    if (!std::isfinite(addend.GetDouble(n))) return std::nullopt;
  }
  return addend;
}

std::optional<NewLayer> Rewritten(const Graph& graph, const ReaderMap& readers, Node& product,
                                  const Affine& affine) {
  const ConstantMatrix weights = *RightWeights(product);
  NewLayer layer{&product, {}, {}, nullptr};
  auto scaled = Scaled(weights, affine.scale, {1.0});
  if (!scaled) return std::nullopt;
  layer.weights = *std::move(scaled);
  const bool shifts = std::any_of(affine.shift.begin(), affine.shift.end(),
                                  [](double shift) { return shift != 0; });
  if (!shifts) return layer;
  Factors c = {0.0};
  const Value* y = product.result();
  if (IsReadOnce(graph, readers, y) && readers.at(y)[0]->kind == OpKind::kAdd) {
    Node* add = readers.at(y)[0];
    const Value* other = add->operand(add->operand(0) == y ? 1 : 0);
    const auto known = FactorsAlong(other, y->type.rank() - 1, y->type.rank());
    if (known && add->result()->type == y->type) {
      layer.bias = add;
      c = *known;
    }
  }
  auto addend = Addend(weights, affine.shift, c);
  if (!addend) return std::nullopt;
  layer.addend = *std::move(addend);
  return layer;
}

size_t PlaceOf(const Graph& graph, const Node* node) {
  size_t place = 0;
  while (graph.nodes[place].get() != node) ++place;
  return place;
}

void Rewrite(Graph& graph, const NewLayer& layer, const Affine& affine) {
  Node& product = *layer.product;
  for (const Node* node : affine.nodes) AddProvenance(product, *node);
  Builder builder(graph, PlaceOf(graph, &product));
  builder.set_provenance(product.provenance);
  const std::string name = product.operand(1)->name;
  product.operands[1] = builder.Constant(layer.weights, name + "_scaled");
  if (layer.addend.dims().empty()) return;
  if (layer.bias) {
    const int constant = layer.bias->operand(0) == product.result() ? 1 : 0;
    Value* old = layer.bias->operands[constant];
    layer.bias->operands[constant] = builder.Constant(layer.addend, old->name + "_shifted");
    return;
  }
  Value* addend = builder.Constant(layer.addend, name + "_shift");
  Builder behind(graph, PlaceOf(graph, &product) + 1);
  behind.set_provenance(product.provenance);
  Value* y = product.result();
  Value* sum = behind.Make(OpKind::kAdd, {y, addend}, {}, y->name);
  graph.ReplaceAllUses(y, sum);
  sum->producer->operands[0] = y;
  std::swap(sum->name, y->name);
}

bool FoldInto(Graph& graph, const PassOptions& options, Node& tail) {
  const bool may_match =
      tail.kind == OpKind::kMul || tail.kind == OpKind::kDiv ||
      (tail.kind == OpKind::kAdd && (Payload(tail.operand(0)) || Payload(tail.operand(1))));
  if (!may_match || tail.result()->type.rank() == 0) return false;
  const auto readers = Readers(graph);
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
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!FoldInto(graph, options, *graph.nodes[i])) continue;
    changed = true;
    RemoveDeadNodes(graph);
    i = static_cast<size_t>(-1);  // the nodes moved: look again from the first
  }
  return changed;
}

}  // namespace fusec
