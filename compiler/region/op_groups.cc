#include "compiler/region/op_groups.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

#include "compiler/ir/op_def.h"
#include "compiler/ir/region_class.h"
#include "compiler/region/attention_parts.h"
#include "compiler/region/op_pattern.h"

namespace fusec {

namespace {

bool Is(const Node* node, OpKind kind) { return node != nullptr && node->kind == kind; }

bool IsPointwise(const Node& node) { return GetOpDef(node.kind).op_class == OpClass::kPointwise; }

// The producer of a value, skipping views and casts.
const Node* Maker(const Value* value) { return Viewed(value)->producer; }

// A group with a fixed pattern of ops.
struct NamedPattern {
  std::string_view name;
  OpPattern pattern;
};

// The first pattern that matches is used.
ArrayRef<NamedPattern> Patterns() {
  static const auto* const kPatterns = new std::vector<NamedPattern>{
      {"softmax", OpPattern("div(e: exp(sub(x, reduce_max(x))), reduce_sum(e))")},
      {"log_softmax", OpPattern("sub(s: sub(x, reduce_max(x)), log(reduce_sum(exp(s))))")},
      {"layer_norm",
       OpPattern("div(d: sub(x, reduce_mean(x)), sqrt(add(reduce_mean(mul(d, d)), fixed)))")},
      {"layer_norm", OpPattern("mul(d: sub(x, reduce_mean(x)), "
                               "reciprocal(sqrt(add(reduce_mean(mul(d, d)), fixed))))")},
      {"layer_norm", OpPattern("mul(d: sub(x, reduce_mean(x)), "
                               "div(fixed, sqrt(add(reduce_mean(mul(d, d)), fixed))))")},
      {"rms_norm", OpPattern("div(d, sqrt(add(reduce_mean(mul(d, d)), fixed)))")},
      {"rms_norm", OpPattern("mul(d, reciprocal(sqrt(add(reduce_mean(mul(d, d)), fixed))))")},
      {"rms_norm", OpPattern("mul(d, div(fixed, sqrt(add(reduce_mean(mul(d, d)), fixed))))")},
      {"rotary_embedding", OpPattern("add(mul(_, _), mul(concat(neg(_), _), _))")},
      {"rotary_embedding",
       OpPattern("concat(sub(mul(_, _), mul(_, _)), add(mul(_, _), mul(_, _)))")},
  };
  return *kPatterns;
}

bool FoldsLastAxis(const Node& reduction) {
  const auto& axes = reduction.Ints("axes");
  return std::find(axes.begin(), axes.end(), reduction.operand(0)->type.rank() - 1) != axes.end();
}

class GroupFinder {
 public:
  explicit GroupFinder(const Node& region)
      : body_(*region.body),
        is_attention_(RegionClassOf(region) == RegionClass::kAttention),
        fixed_(FixedValues(region)) {
    for (const auto& node : body_.nodes) {
      for (const Value* operand : node->operands) {
        if (operand != nullptr) users_[operand].push_back(node.get());
      }
    }
  }

  // Bigger groups are searched first if they contain smaller ones.
  std::vector<OpGroup> Find() {
    for (const auto find :
         {&GroupFinder::FindAttentions, &GroupFinder::FindPattern, &GroupFinder::FindLinear,
          &GroupFinder::FindMlp, &GroupFinder::FindInteraction, &GroupFinder::FindEmbeddingBag,
          &GroupFinder::FindEmbedding}) {
      for (const auto& node : body_.nodes) (this->*find)(*node);
    }
    for (auto node = body_.nodes.rbegin(); node != body_.nodes.rend(); ++node)
      JoinAttention(**node);
    std::erase_if(groups_, [](const OpGroup& group) { return group.nodes.empty(); });
    return std::move(groups_);
  }

 private:
  using Nodes = std::initializer_list<const Node*>;

  bool IsFixed(const Value* value) const { return fixed_.count(value) != 0; }
  const OpGroup* GroupOf(const Node& node) const {
    const auto found = group_of_.find(&node);
    return found == group_of_.end() ? nullptr : &groups_[found->second];
  }
  // Adds a node to a group, unless it already belongs to one.
  void Join(const Node& node, size_t group) {
    if (group_of_.try_emplace(&node, group).second) groups_[group].nodes.insert(&node);
  }
  template <class NodeList>
  size_t AddGroup(const std::string& name, const NodeList& nodes) {
    groups_.push_back({name, {}});
    for (const Node* node : nodes) Join(*node, groups_.size() - 1);
    return groups_.size() - 1;
  }
  // The only reader of a node's result, or null.
  const Node* Reader(const Node& node) const {
    const auto users = users_.find(node.result());
    return users != users_.end() && users->second.size() == 1 ? users->second[0] : nullptr;
  }
  // Adds the ops of `kinds` that follow `node` and have one fixed operand.
  void JoinFixed(const Node& node, ArrayRef<OpKind> kinds, size_t group) {
    const Node* reader = Reader(node);
    if (reader == nullptr || std::find(kinds.begin(), kinds.end(), reader->kind) == kinds.end() ||
        (!IsFixed(reader->operand(0)) && !IsFixed(reader->operand(1))))
      return;
    Join(*reader, group);
    JoinFixed(*reader, kinds, group);
  }

  void FindAttentions(const Node& node) {
    const auto parts = FindAttention(node);
    // Without a softmax, other kernels may contain layers that look like attention.
    if (parts && (parts->has_softmax || is_attention_)) AddGroup("attention", parts->nodes);
  }

  // Pointwise ops and views that only attention reads belong to it, such as its scale and its mask.
  void JoinAttention(const Node& node) {
    if (GroupOf(node) != nullptr || (!IsPointwise(node) && !IsView(node))) return;
    const auto users = users_.find(node.result());
    if (users == users_.end()) return;
    for (const Node* user : users->second) {
      const OpGroup* group = GroupOf(*user);
      if (group == nullptr || group->name != "attention") return;
    }
    Join(node, group_of_.at(users->second[0]));
  }

  void FindPattern(const Node& node) {
    if (GroupOf(node) != nullptr) return;
    for (const NamedPattern& named : Patterns()) {
      const auto nodes = named.pattern.Match(node, fixed_);
      if (!nodes) continue;
      const size_t group = AddGroup(std::string(named.name), *nodes);
      if (named.name.ends_with("_norm")) JoinFixed(node, {OpKind::kMul, OpKind::kAdd}, group);
      return;
    }
  }

  // A matmul with one fixed operand, or the sum of a row times a fixed row.
  void FindLinear(const Node& node) {
    if (GroupOf(node) != nullptr) return;
    if (node.kind == OpKind::kMatMul && IsFixed(node.operand(0)) != IsFixed(node.operand(1)))
      return JoinFixed(node, {OpKind::kAdd}, AddGroup("linear", Nodes{&node}));
    if (node.kind != OpKind::kReduceSum || !FoldsLastAxis(node)) return;
    const Node* product = Maker(node.operand(0));
    if (!Is(product, OpKind::kMul) || GroupOf(*product) != nullptr) return;
    const Value* weights = product->operand(IsFixed(product->operand(0)) ? 0 : 1);
    const Shape& shape = weights->type.shape;
    if (!IsFixed(weights) || shape.empty() || shape.back() == Expr(1)) return;
    JoinFixed(node, {OpKind::kAdd}, AddGroup("linear", Nodes{&node, product}));
  }

  struct Layers {
    std::set<size_t> groups;  // linear layers
    NodeSet between;
    bool has_activation = false;
  };
  // Whether `value` is computed by pointwise ops from results of linear layers only.
  bool FollowsLayers(const Value* value, Layers& layers) const {
    if (IsFixed(value)) return true;
    const Node* node = value->producer;
    if (node == nullptr) return false;
    if (const OpGroup* group = GroupOf(*node)) {
      layers.groups.insert(group_of_.at(node));
      return group->name == "linear" || group->name == "mlp";
    }
    if (!IsPointwise(*node) && !IsView(*node)) return false;
    layers.between.insert(node);
    layers.has_activation |= (GetOpDef(node->kind).algebra & kActivation) != 0;
    return std::all_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
      return operand == nullptr || FollowsLayers(operand, layers);
    });
  }

  void FindMlp(const Node& node) {
    const OpGroup* linear = GroupOf(node);
    if (linear == nullptr || linear->name != "linear") return;
    const Node* product = node.kind == OpKind::kReduceSum ? Maker(node.operand(0)) : &node;
    if (node.kind != OpKind::kReduceSum && node.kind != OpKind::kMatMul) return;
    Layers layers;
    for (const Value* operand : product->operands) {
      if (!FollowsLayers(operand, layers)) return;
    }
    if (!layers.has_activation) return;
    const size_t mlp = group_of_.at(&node);
    groups_[mlp].name = "mlp";
    for (const Node* between : layers.between) Join(*between, mlp);
    for (const size_t group : layers.groups) {
      for (const Node* part : std::exchange(groups_[group].nodes, {})) {
        group_of_.erase(part);
        Join(*part, mlp);
      }
    }
  }

  // The value from which views and gathers with fixed indices take the elements of `value`.
  const Value* Source(const Value* value) const {
    const Node* node = value->producer;
    while (node != nullptr && node->kind != OpKind::kSlice &&
           (IsView(*node) || IsFixedChoice(*node))) {
      value = node->operand(0);
      node = value->producer;
    }
    return value;
  }
  bool IsFixedChoice(const Node& node) const {
    return (node.kind == OpKind::kGather || node.kind == OpKind::kGatherND) &&
           IsFixed(node.operand(1));
  }

  void FindInteraction(const Node& node) {
    if (GroupOf(node) != nullptr) return;
    if (node.kind != OpKind::kMatMul && node.kind != OpKind::kMul) return;
    const Value* source = Source(node.operand(0));
    if (source != Source(node.operand(1)) || IsFixed(source)) return;
    // A square is not an interaction.
    if (node.kind == OpKind::kMul &&
        Product(node.result()->type.shape) == Product(source->type.shape))
      return;
    AddGroup("interaction", Nodes{&node});
  }

  bool IsEmbedding(const Node& node) const {
    return node.kind == OpKind::kGather && node.Int("axis") == 0 && IsFixed(node.operand(0)) &&
           !IsFixed(node.operand(1)) && node.operand(0)->type.rank() == 2 &&
           IsFloat(node.operand(0)->type.dtype);
  }

  // Whether `value` is computed by pointwise ops from rows of a table, among others; adds the nodes
  // on the way.
  bool FollowsEmbedding(const Value* value, NodeSet& nodes) const {
    const Node* node = value->producer;
    if (node == nullptr || IsFixed(value)) return false;
    bool follows = IsEmbedding(*node);
    if (!follows && (IsPointwise(*node) || IsView(*node))) {
      for (const Value* operand : node->operands) {
        if (operand != nullptr) follows |= FollowsEmbedding(operand, nodes);
      }
    }
    if (follows) nodes.insert(node);
    return follows;
  }

  void FindEmbeddingBag(const Node& node) {
    const bool folds_rows = node.kind == OpKind::kSegmentReduce ||
                            (GetOpDef(node.kind).op_class == OpClass::kReduction &&
                             node.Has("axes") && !FoldsLastAxis(node));
    NodeSet nodes = {&node};
    if (!folds_rows || GroupOf(node) != nullptr || !FollowsEmbedding(node.operand(0), nodes))
      return;
    const size_t bag = AddGroup("embedding_bag", nodes);
    const Node* quotient = Reader(node);
    NodeSet count;
    if (!Is(quotient, OpKind::kDiv) || !FollowsSum(quotient->operand(1), count)) return;
    count.insert(quotient);
    for (const Node* part : count) Join(*part, bag);
  }

  // Whether `value` is computed by pointwise ops from one sum, such as the sum of a mask by which a
  // mean divides; adds these nodes and the sum.
  bool FollowsSum(const Value* value, NodeSet& nodes) const {
    const Node* node = value->producer;
    if (node == nullptr || !(IsPointwise(*node) || IsView(*node) || Is(node, OpKind::kReduceSum)))
      return IsFixed(value);
    nodes.insert(node);
    return node->kind == OpKind::kReduceSum ||
           std::all_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
             return operand == nullptr || IsFixed(operand) || FollowsSum(operand, nodes);
           });
  }

  void FindEmbedding(const Node& node) {
    if (IsEmbedding(node) && GroupOf(node) == nullptr) AddGroup("embedding", Nodes{&node});
  }

  const Graph& body_;
  bool is_attention_;  // whether the region is of class attention
  ValueSet fixed_;
  DenseMap<const Value*, std::vector<const Node*>> users_;
  std::vector<OpGroup> groups_;
  DenseMap<const Node*, size_t> group_of_;
};

}  // namespace

std::vector<OpGroup> FindOpGroups(const Node& region) { return GroupFinder(region).Find(); }

ValueSet FixedValues(const Node& region) {
  const Graph& body = *region.body;
  ValueSet fixed;
  for (size_t i = 0; i < body.inputs.size(); ++i) {
    if (IsConstant(region.operands[i])) fixed.insert(body.inputs[i].get());
  }
  for (const auto& node : body.nodes) {
    if (!std::all_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
          return operand == nullptr || fixed.count(operand) != 0;
        }))
      continue;
    for (const auto& result : node->results) fixed.insert(result.get());
  }
  return fixed;
}

}  // namespace fusec
