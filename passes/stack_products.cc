#include "passes/stack_products.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/ir/op_def.h"
#include "compiler/region/product.h"
#include "compiler/support/check.h"
#include "passes/constant_linear.h"
#include "passes/fuse_block_program.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

constexpr int64_t kPackBytes = 16;  // bytes of one load; rows should be multiples of it
constexpr int64_t kShortRow = 32;   // elements; for shorter rows it matters little (pad-depth)

using Nodes = std::vector<Node*>;  // one node of each chain
using Layers = NodeSet;

OpClass ClassOf(const Node& node) { return GetOpDef(node.kind).op_class; }

bool IsLayer(const Node& node) {
  return RightWeights(node) && node.operand(0)->type.rank() == 2 &&
         node.operand(0) != node.operand(1) && node.result()->type.dtype != Dtype::kF64;
}

bool IsLarge(const Node& layer) {
  const ConstantMatrix weights = *RightWeights(layer);
  return weights.terms() * weights.results() > kMostSharedWeights;
}

int64_t DepthOf(const Node& layer) { return RightWeights(layer)->terms(); }

// Describes the ops from a layer to the last layer after it; chains with equal descriptions may be
// stacked.
std::string WordsOf(const ReaderMap& readers, const Layers& layers, const Node& layer) {
  const TensorType& type = layer.result()->type;
  std::string words = std::string(DtypeName(type.dtype)) + " " + type.shape[0].ToString();
  std::string to_last_layer;
  for (const Node* node = &layer; node;) {
    const Shape& shape = node->result()->type.shape;
    words += " " + std::string(GetOpDef(node->kind).text) + " " + shape[1].ToString();
    if (layers.count(node)) to_last_layer = words;
    const auto found = readers.find(node->result());
    node = nullptr;
    if (found == readers.end()) break;
    for (const Node* reader : found->second) {
      if (layers.count(reader) || (!node && IsPointwise(*reader, shape))) node = reader;
    }
  }
  return to_last_layer;
}

// Whether `value` is made by a product that is not in `others`, followed by pointwise ops.
bool IsBehindAProduct(const Value* value, const Layers& others, ValueSet& seen) {
  const Node* node = value ? value->producer : nullptr;
  if (!node || others.count(node) || !seen.insert(value).second) return false;
  if (ClassOf(*node) == OpClass::kContraction) return true;
  return IsPointwise(*node, value->type.shape) &&
         std::any_of(node->operands.begin(), node->operands.end(),
                     [&](const Value* operand) { return IsBehindAProduct(operand, others, seen); });
}

// Whether a loop makes `value`, so that it could store it elsewhere.
bool IsMadeByALoop(const Value* value) {
  const Node* node = value->producer;
  while (node && node->kind == OpKind::kReshape) node = node->operand(0)->producer;
  if (!node) return false;
  ValueSet seen;
  return node->kind == OpKind::kConcat || ClassOf(*node) == OpClass::kGather ||
         (ClassOf(*node) == OpClass::kPointwise && !IsBehindAProduct(node->result(), {}, seen));
}

// Chains of equal layers, and the graph rewrite that stacks them.
class Chains {
 public:
  Chains(Graph& graph, const ReaderMap& readers, const Layers& layers, const PassOptions& options,
         const Nodes& first)
      : graph_(graph),
        readers_(readers),
        layers_(layers),
        own_tails_(IsSplit(first[0]->result()->type.dtype, options.matmul_precision)),
        rows_(first[0]->result()->type.shape[0]) {
    AddStep(first);
    for (const auto& node : graph.nodes) {
      const Nodes partners = PartnersOf(node.get());
      if (!partners.empty()) AddStep(partners);
    }
    DropEnds();
  }

  // The number of launches that stacking saves; a layer with its epilogue counts as one.
  int64_t SavedLaunches() const {
    const int64_t layers = std::count_if(steps_.begin(), steps_.end(), [](const Nodes& step) {
      return step[0]->kind == OpKind::kMatMul && IsLarge(*step[0]);
    });
    ValueSet stored, seen;
    int64_t copies = CopiesInputs() ? 1 : 0;
    for (const Nodes& step : steps_) {
      for (const Node* node : step) CollectStored(node->result(), stored, seen);
      // One loop makes all outputs that are slices of the same stack.
      copies += std::any_of(step.begin(), step.end(),
                            [&](const Node* node) { return IsOutput(graph_, node->result()); });
    }
    return (count() - 1) * layers - copies - static_cast<int64_t>(stored.size());
  }

  void Rewrite() {
    Builder builder(graph_);
    DenseMap<const Value*, Value*> stacks;  // by value of the first chain
    for (const Nodes& step : steps_) {
      builder.set_provenance({});
      ValueList operands;
      for (size_t i = 0; i < step[0]->operands.size(); ++i) {
        const auto stack = stacks.find(step[0]->operands[i]);
        operands.push_back(stack != stacks.end() ? stack->second : Stacked(builder, step, i));
      }
      Attributes attributes = step[0]->attributes;
      if (step[0]->kind == OpKind::kMatMul) attributes["transpose_b"] = int64_t{1};
      Value* stack = builder.Make(step[0]->kind, operands, attributes, NameOf(*step[0]->result()));
      for (const Node* node : step) AddProvenance(*stack->producer, *node);
      stacks[step[0]->result()] = stack;
    }
    for (const Nodes& step : steps_) {
      Value* stack = stacks.at(step[0]->result());
      for (int64_t chain = 0; chain < count(); ++chain) CutOut(builder, stack, *step[chain], chain);
    }
    SortNodes(graph_);
    RemoveDeadNodes(graph_);
  }

 private:
  struct Place {
    size_t step;
    int64_t chain;
  };

  int64_t count() const { return static_cast<int64_t>(steps_[0].size()); }
  static std::string NameOf(const Value& first) { return first.name + "_stack"; }
  bool IsTaken(const Node& node) const { return places_.count(node.result()) != 0; }

  void AddStep(const Nodes& nodes) {
    for (size_t chain = 0; chain < nodes.size(); ++chain)
      places_[nodes[chain]->result()] = {steps_.size(), static_cast<int64_t>(chain)};
    steps_.push_back(nodes);
  }

  const Nodes& ReadersOfValue(const Value* value) const {
    static const Nodes kNone;
    const auto found = readers_.find(value);
    return found == readers_.end() ? kNone : found->second;
  }

  // The first operand of `node` that is made by a chain, or null.
  const Value* FirstOfChains(const Node& node) const {
    const auto found = std::find_if(node.operands.begin(), node.operands.end(),
                                    [&](const Value* v) { return places_.count(v) != 0; });
    return found == node.operands.end() ? nullptr : *found;
  }

  // `node` of the first chain and the nodes that do the same in the other chains; empty if a chain
  // has none.
  Nodes PartnersOf(Node* node) const {
    const Value* known = FirstOfChains(*node);
    if (!known || IsTaken(*node)) return {};
    if (!layers_.count(node) && !IsPointwise(*node, known->type.shape)) return {};
    Nodes partners;
    for (int64_t chain = 0; chain < count(); ++chain) {
      const Node& maker = *steps_[places_.at(known).step][chain];
      const Nodes& readers = ReadersOfValue(maker.result());
      const auto partner = std::find_if(readers.begin(), readers.end(), [&](const Node* reader) {
        return !IsTaken(*reader) && DoesTheSame(*node, *reader, chain);
      });
      if (partner == readers.end()) return {};
      partners.push_back(*partner);
    }
    return partners[0] == node ? partners : Nodes();
  }

  // Whether `node` does in its chain what `first` does in the first one.
  bool DoesTheSame(const Node& first, const Node& node, int64_t chain) const {
    if (node.kind != first.kind || node.operands.size() != first.operands.size() ||
        node.result()->type != first.result()->type)
      return false;
    if (layers_.count(&first)) {
      const auto here = places_.find(first.operand(0)), there = places_.find(node.operand(0));
      return layers_.count(&node) && here != places_.end() && there != places_.end() &&
             AreTheSame(here->second, there->second, chain) && DepthOf(first) == DepthOf(node);
    }
    if (node.attributes != first.attributes) return false;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const auto here = places_.find(first.operands[i]), there = places_.find(node.operands[i]);
      if (here == places_.end() && there == places_.end()) {
        const bool constant = Factor(first, i) && Factor(node, i);
        if (!constant || first.operands[i]->type.dtype != node.operands[i]->type.dtype)
          return false;
      } else if (here == places_.end() || there == places_.end() ||
                 !AreTheSame(here->second, there->second, chain)) {
        return false;
      }
    }
    return true;
  }

  static bool AreTheSame(const Place& first, const Place& other, int64_t chain) {
    return first.chain == 0 && other.chain == chain && first.step == other.step;
  }

  // The elements of a constant operand: one number, or one per column.
  static std::optional<Factors> Factor(const Node& node, size_t operand) {
    return FactorsAlong(node.operands[operand], /*axis=*/1, /*rank=*/2);
  }

  // Removes ops at the ends of the chains that are better left to their readers, as without
  // stacking: ops that a reduction computes from a value that is stored anyway (fuse-matmul-tail),
  // and ops that the kernel of the product cannot compute.
  void DropEnds() {
    for (size_t i = steps_.size(); i-- > 0;) {
      const Nodes& step = steps_[i];
      const Nodes& readers = ReadersOfValue(step[0]->result());
      const bool goes_on = std::any_of(readers.begin(), readers.end(),
                                       [&](const Node* reader) { return IsTaken(*reader); });
      if (step[0]->kind == OpKind::kMatMul || goes_on) continue;
      const bool is_light = (GetOpDef(step[0]->kind).algebra & kExpensive) == 0;
      const bool for_reductions = std::all_of(
          step.begin(), step.end(), [&](const Node* node) { return IsReducedOnly(*node); });
      if ((is_light && for_reductions) || (!own_tails_ && !IsInLibraryCall(step))) RemoveStep(i);
    }
  }

  // Whether the library computes a step in the call of the product: a bias or a relu that is the
  // only reader of its operand.
  bool IsInLibraryCall(const Nodes& step) const {
    const Value* made = FirstOfChains(*step[0]);
    const Node* before = made->producer;
    const Nodes& makers = steps_[places_.at(made).step];
    const bool alone = std::all_of(makers.begin(), makers.end(), [&](const Node* maker) {
      return HasOneReader(graph_, readers_, maker->result());
    });
    if (!alone) return false;
    if (before->kind == OpKind::kMatMul)
      return step[0]->kind == OpKind::kAdd || step[0]->kind == OpKind::kRelu;
    return before->kind == OpKind::kAdd && step[0]->kind == OpKind::kRelu &&
           IsInLibraryCall(makers);
  }

  void RemoveStep(size_t step) {
    std::vector<Nodes> kept = std::move(steps_);
    kept.erase(kept.begin() + static_cast<int64_t>(step));
    steps_.clear();
    places_.clear();
    for (const Nodes& nodes : kept) AddStep(nodes);
  }

  bool IsReducedOnly(const Node& node) const {
    const Nodes& readers = ReadersOfValue(node.result());
    return !IsOutput(graph_, node.result()) && !readers.empty() &&
           std::all_of(readers.begin(), readers.end(),
                       [](const Node* reader) { return IsReduction(*reader); });
  }

  bool IsReadOutside(const Value* value) const {
    const Nodes& readers = ReadersOfValue(value);
    return IsOutput(graph_, value) ||
           std::any_of(readers.begin(), readers.end(), [&](const Node* r) { return !IsTaken(*r); });
  }

  // Collects, from `value` and the values made from it by views and pointwise ops, those that a
  // kernel of their own must store: outputs, and operands of products and of other kernels that
  // cannot read a slice.
  void CollectStored(const Value* value, ValueSet& stored, ValueSet& seen) const {
    if (!seen.insert(value).second) return;
    if (IsOutput(graph_, value) && !places_.count(value)) stored.insert(value);
    for (const Node* reader : ReadersOfValue(value)) {
      const OpClass op_class = ClassOf(*reader);
      if (IsTaken(*reader) || IsReduction(*reader) || op_class == OpClass::kGather ||
          reader->kind == OpKind::kConcat)
        continue;
      const bool pointwise = IsPointwise(*reader, value->type.shape);
      if (op_class == OpClass::kView || (pointwise && !IsOfAnotherProduct(*reader)))
        CollectStored(reader->result(), stored, seen);
      else if (pointwise || op_class != OpClass::kPointwise)
        stored.insert(value);
    }
  }

  // Whether the kernel that computes `node` also reads a product that is not part of the chains.
  bool IsOfAnotherProduct(const Node& node) const {
    Layers taken;
    for (const Nodes& step : steps_) taken.insert(step.begin(), step.end());
    ValueSet seen;
    return IsBehindAProduct(node.result(), taken, seen);
  }

  bool ReadOneInput() const {
    return std::all_of(steps_[0].begin(), steps_[0].end(), [&](const Node* layer) {
      return layer->operand(0) == steps_[0][0]->operand(0);
    });
  }

  // Whether stacking the inputs takes a kernel that only copies.
  bool CopiesInputs() const {
    return !ReadOneInput() &&
           std::none_of(steps_[0].begin(), steps_[0].end(), [&](const Node* layer) {
             const Value* input = layer->operand(0);
             return HasOneReader(graph_, readers_, input) && IsMadeByALoop(input);
           });
  }

  // The depth of the stacked layers: that of the deepest layer, rounded up to whole packs where the
  // inputs are copied in any case.
  int64_t Depth(const Nodes& step) const {
    int64_t depth = 0;
    for (const Node* layer : step) depth = std::max(depth, DepthOf(*layer));
    const bool pads = &step == &steps_[0] && !ReadOneInput() && depth >= kShortRow;
    const int64_t pack = kPackBytes / DtypeBytes(step[0]->result()->type.dtype);
    return pads ? CeilDiv(depth, pack) * pack : depth;
  }

  // Operand number `i` of the stacked node, made from that operand of each chain.
  Value* Stacked(Builder& builder, const Nodes& step, size_t i) const {
    if (step[0]->kind != OpKind::kMatMul) return StackedConstants(builder, step, i);
    if (i == 1) return StackedWeights(builder, step);
    FUSEC_CHECK(&step == &steps_[0], "a layer reads what no chain has");
    return ReadOneInput() ? step[0]->operand(0) : StackedInputs(builder);
  }

  Value* StackedInputs(Builder& builder) const {
    const int64_t depth = Depth(steps_[0]);
    ValueList parts;
    for (const Node* layer : steps_[0]) {
      Value* input = layer->operand(0);
      const int64_t missing = depth - DepthOf(*layer);
      if (missing > 0) {
        const bool extends = input->producer && input->producer->kind == OpKind::kConcat &&
                             input->producer->Int("axis") == 1 &&
                             HasOneReader(graph_, readers_, input);
        ValueList rows = {input};
        if (extends) rows = input->producer->operands;
        if (extends) builder.set_provenance(input->producer->provenance);
        input = WithZeros(builder, rows, missing, input->name + "_padded");
        builder.set_provenance({});
      }
      parts.push_back(builder.Make(OpKind::kReshape, {input}, {{"shape", Shape{1, rows_, depth}}}));
    }
    return builder.Make(OpKind::kConcat, parts, {{"axis", int64_t{0}}},
                        NameOf(*steps_[0][0]->operand(0)));
  }

  // [count, results, depth]
  Value* StackedWeights(Builder& builder, const Nodes& step) const {
    const int64_t results = RightWeights(*step[0])->results(), depth = Depth(step);
    TensorData data(step[0]->result()->type.dtype, {count(), results, depth});
    for (int64_t chain = 0; chain < count(); ++chain) {
      const ConstantMatrix weights = *RightWeights(*step[chain]);
      for (int64_t n = 0; n < results; ++n) {
        for (int64_t k = 0; k < weights.terms(); ++k)
          data.SetDouble((chain * results + n) * depth + k, weights.At(k, n));
      }
    }
    Recipe recipe;
    ValueList parts;
    for (const Node* layer : step) {
      const ConstantMatrix weights = *RightWeights(*layer);
      Value* rows = recipe.Turned(recipe.Use(weights.constant), !weights.transposed);
      rows = recipe.Padded(rows, 1, depth - weights.terms());
      parts.push_back(recipe.Reshape(rows, {1, results, depth}));
    }
    return AddConstant(builder, recipe.Finish(recipe.Concat(parts, 0), std::move(data)),
                       NameOf(*step[0]->operand(1)));
  }

  // The constants as [count, 1, columns], or the single number that all chains have.
  Value* StackedConstants(Builder& builder, const Nodes& step, size_t i) const {
    std::vector<Factors> factors;
    for (const Node* node : step) factors.push_back(*Factor(*node, i));
    size_t columns = 1;
    for (const Factors& own : factors) columns = std::max(columns, own.size());
    const bool are_one = std::count(factors.begin(), factors.end(), factors[0]) == count();
    if (columns == 1 && are_one) return step[0]->operands[i];
    TensorData data(step[0]->operands[i]->type.dtype, {count(), 1, static_cast<int64_t>(columns)});
    for (int64_t at = 0; at < data.element_count(); ++at) {
      const int64_t column = at % static_cast<int64_t>(columns);
      data.SetDouble(at, FactorAt(factors[at / columns], column));
    }
    Recipe recipe;
    ValueList parts;
    for (const Factors& own : factors) {
      Value* row = own.In(recipe, {1, 1, static_cast<int64_t>(own.size())});
      parts.push_back(recipe.Expand(row, {1, 1, static_cast<int64_t>(columns)}));
    }
    return AddConstant(builder, recipe.Finish(recipe.Concat(parts, 0), std::move(data)),
                       NameOf(*step[0]->operands[i]));
  }

  // Gives readers of a chain's value outside of the chains a slice of the stack.
  void CutOut(Builder& builder, Value* stack, const Node& node, int64_t chain) const {
    Value* value = node.result();
    if (!IsReadOutside(value)) return;
    const Shape& shape = value->type.shape;
    builder.set_provenance(node.provenance);
    Value* slice = Sliced(builder, stack, 0, chain, chain + 1);
    Value* own = builder.Make(OpKind::kReshape, {slice}, {{"shape", shape}}, value->name);
    graph_.ReplaceAllUses(value, own);
    std::swap(own->name, value->name);
  }

  Graph& graph_;
  const ReaderMap& readers_;
  const Layers& layers_;
  const bool own_tails_;  // generated kernels compute any epilogue (fuse-matmul-tail)
  const Expr rows_;
  std::vector<Nodes> steps_;  // in graph order; the first step consists of layers
  std::unordered_map<const Value*, Place> places_;
};

// The nodes that depend on one of `nodes`, and `nodes` themselves.
NodeSet After(const Graph& graph, const Nodes& nodes) {
  NodeSet after(nodes.begin(), nodes.end());
  for (const auto& node : graph.nodes) {
    for (const Value* operand : node->operands) {
      if (operand && operand->producer && after.count(operand->producer)) after.insert(node.get());
    }
  }
  return after;
}

// Whether the depths are similar; much shorter rows would consist mostly of padding.
bool AreOfLikeDepth(const Nodes& layers, const Node& other) {
  constexpr int64_t kMostPercent = 125;
  int64_t least = DepthOf(other), most = least;
  for (const Node* layer : layers) {
    least = std::min(least, DepthOf(*layer));
    most = std::max(most, DepthOf(*layer));
  }
  return 100 * most <= kMostPercent * least;
}

bool StackSome(Graph& graph, const PassOptions& options) {
  const auto readers = Readers(graph);
  Layers layers;
  Nodes large;
  for (const auto& node : graph.nodes) {
    if (!IsLayer(*node) || IsKeptAdapter(*node, readers, options)) continue;
    layers.insert(node.get());
    if (IsLarge(*node)) large.push_back(node.get());
  }
  DenseMap<const Node*, std::string> words;
  for (const Node* layer : large) words[layer] = WordsOf(readers, layers, *layer);
  for (size_t first = 0; first < large.size(); ++first) {
    Nodes together = {large[first]};
    NodeSet after = After(graph, together);
    for (size_t i = first + 1; i < large.size(); ++i) {
      Node* other = large[i];
      if (words[other] != words[together[0]] || after.count(other) ||
          !AreOfLikeDepth(together, *other) || together.size() >= kMostMatrices)
        continue;
      together.push_back(other);
      after = After(graph, together);
    }
    if (together.size() < 2) continue;
    Chains chains(graph, readers, layers, options, together);
    if (chains.SavedLaunches() < 1) continue;
    chains.Rewrite();
    return true;
  }
  return false;
}

}  // namespace

Result<bool> StackProducts(Graph& graph, const PassOptions& options, PassReport&) {
  bool changed = false;
  while (StackSome(graph, options)) changed = true;
  return changed;
}

}  // namespace fusec
