#include "compiler/import/ml/tree_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace fusec {

namespace {

using Mode = TreeNodes::Mode;

constexpr int64_t kDeepest = 256;

// Finds the depth, and checks that no node is its own descendant.
Result<void> Measure(const ImportContext& context, TreeNodes& trees) {
  if (trees.roots.empty()) return context.Fail("it has no tree");
  std::vector<int64_t> level(trees.count(), -1);  // the most branches on the way to each node
  for (const int64_t root : trees.roots) level[root] = 0;
  std::vector<int64_t> work = trees.roots;
  while (!work.empty()) {
    const int64_t node = work.back();
    work.pop_back();
    trees.depth = std::max(trees.depth, level[node]);
    if (trees.IsLeaf(node)) continue;
    if (level[node] == kDeepest) {
      return context.Fail(fmt::format(
          "a tree has a cycle, or more than {} branches on a path, which fusec does not support",
          kDeepest));
    }
    for (const int64_t child : {trees.on_true[node], trees.on_false[node]}) {
      if (level[child] > level[node]) continue;
      level[child] = level[node] + 1;
      work.push_back(child);
    }
  }
  return {};
}

// Checks the features that branches compare.
Result<void> CheckFeatures(const ImportContext& context, const TreeNodes& trees) {
  const Shape& shape = context.input(0)->type.shape;
  const auto features = shape.empty() ? std::nullopt : shape.back().AsConstant();
  for (int64_t node = 0; node < trees.count(); ++node) {
    const int64_t feature = trees.features[node];
    if (feature >= 0 && (!features || feature < *features)) continue;
    return context.Fail(fmt::format("node {} compares feature {} of x, {}", node, feature,
                                    context.input(0)->type.ToString()));
  }
  return {};
}

std::optional<Mode> ModeNamed(const std::string& name) {
  const std::map<std::string, Mode> modes = {
      {"BRANCH_LEQ", Mode::kLessOrEqual},    {"BRANCH_LT", Mode::kLess},
      {"BRANCH_GTE", Mode::kGreaterOrEqual}, {"BRANCH_GT", Mode::kGreater},
      {"BRANCH_EQ", Mode::kEqual},           {"BRANCH_NEQ", Mode::kNotEqual}};
  const auto found = modes.find(name);
  return found == modes.end() ? std::nullopt : std::optional(found->second);
}

// The attributes with one entry per node.
struct NodeLists {
  std::vector<int64_t> trees, nodes, features, on_true, on_false, missing;
  std::vector<std::string> modes;
  std::vector<double> values;
};

// The numbers of nodes by the numbers of their tree and of the node in it.
using NodeNumbers = std::map<std::pair<int64_t, int64_t>, int64_t>;

Result<void> AddNode(const ImportContext& context, const NodeLists& lists,
                     const NodeNumbers& numbers, size_t i, TreeNodes& trees) {
  const auto number = static_cast<int64_t>(i);
  trees.thresholds.push_back(lists.values[i]);
  trees.missing_is_true.push_back(!lists.missing.empty() && lists.missing[i] != 0);
  if (lists.modes[i] == "LEAF") {
    trees.features.push_back(0);
    trees.modes.push_back(Mode::kLessOrEqual);
    trees.on_true.push_back(number);
    trees.on_false.push_back(number);
    return {};
  }
  const std::optional<Mode> mode = ModeNamed(lists.modes[i]);
  if (!mode) return context.Fail("the mode of a node is \"" + lists.modes[i] + "\"");
  trees.modes.push_back(*mode);
  trees.features.push_back(lists.features[i]);
  for (const auto& [children, list] :
       {std::pair{&lists.on_true, &trees.on_true}, std::pair{&lists.on_false, &trees.on_false}}) {
    const auto child = numbers.find({lists.trees[i], (*children)[i]});
    if (child == numbers.end() || child->second == number) {
      return context.Fail(fmt::format("node {} of tree {} leads to node {}, which is {}",
                                      lists.nodes[i], lists.trees[i], (*children)[i],
                                      child == numbers.end() ? "not there" : "itself"));
    }
    list->push_back(child->second);
  }
  return {};
}

}  // namespace

std::vector<double> NumbersOf(const ImportContext& context, const std::string& name) {
  const std::optional<TensorData> tensor = context.Tensor(name + "_as_tensor");
  if (!tensor) return context.Floats(name);
  std::vector<double> numbers;
  for (int64_t i = 0; i < tensor->element_count(); ++i) numbers.push_back(tensor->GetDouble(i));
  return numbers;
}

Result<TreeNodes> ReadTreeNodes(const ImportContext& context, const std::string& leaves) {
  NodeLists lists{
      context.Ints("nodes_treeids"),      context.Ints("nodes_nodeids"),
      context.Ints("nodes_featureids"),   context.Ints("nodes_truenodeids"),
      context.Ints("nodes_falsenodeids"), context.Ints("nodes_missing_value_tracks_true"),
      context.Strings("nodes_modes"),     NumbersOf(context, "nodes_values")};
  const size_t count = lists.nodes.size();
  for (const size_t size : {lists.trees.size(), lists.features.size(), lists.on_true.size(),
                            lists.on_false.size(), lists.modes.size(), lists.values.size()}) {
    if (size == count && (lists.missing.empty() || lists.missing.size() == count)) continue;
    return context.Fail(fmt::format("its nodes_* lists have {} and {} entries, expected as many",
                                    count, size == count ? lists.missing.size() : size));
  }
  NodeNumbers numbers;
  for (size_t i = 0; i < count; ++i) {
    if (!numbers.emplace(std::pair{lists.trees[i], lists.nodes[i]}, i).second) {
      return context.Fail(
          fmt::format("node {} of tree {} is there twice", lists.nodes[i], lists.trees[i]));
    }
  }
  TreeNodes trees;
  for (size_t i = 0; i < count; ++i) FUSEC_TRY(AddNode(context, lists, numbers, i, trees));
  std::set<int64_t> begun;
  for (size_t i = 0; i < count; ++i) {  // a tree's first node is its root, as in onnxruntime
    if (begun.insert(lists.trees[i]).second) trees.roots.push_back(static_cast<int64_t>(i));
  }
  const std::vector<int64_t> leaf_trees = context.Ints(leaves + "_treeids"),
                             leaf_nodes = context.Ints(leaves + "_nodeids"),
                             ids = context.Ints(leaves + "_ids");
  const std::vector<double> weights = NumbersOf(context, leaves + "_weights");
  if (leaf_trees.size() != ids.size() || leaf_nodes.size() != ids.size() ||
      weights.size() != ids.size()) {
    return context.Fail(
        fmt::format("its {0}_* lists have {1}, {2}, {3} and {4} entries, expected as many", leaves,
                    leaf_trees.size(), leaf_nodes.size(), ids.size(), weights.size()));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto node = numbers.find({leaf_trees[i], leaf_nodes[i]});
    if (node == numbers.end()) {
      return context.Fail(fmt::format("a weight is of node {} of tree {}, which is not there",
                                      leaf_nodes[i], leaf_trees[i]));
    }
    if (trees.IsLeaf(node->second)) trees.weights.push_back({node->second, ids[i], weights[i]});
  }
  FUSEC_TRY(CheckFeatures(context, trees));
  FUSEC_TRY(Measure(context, trees));
  return trees;
}

namespace {

// Reads TreeEnsemble, whose branches and leaves are numbered apart.
class EnsembleReader {
 public:
  explicit EnsembleReader(const ImportContext& context)
      : context_(context),
        features_(context.Ints("nodes_featureids")),
        on_true_(context.Ints("nodes_truenodeids")),
        on_false_(context.Ints("nodes_falsenodeids")),
        true_leaves_(context.Ints("nodes_trueleafs")),
        false_leaves_(context.Ints("nodes_falseleafs")),
        missing_(context.Ints("nodes_missing_value_tracks_true")),
        targets_(context.Ints("leaf_targetids")),
        splits_(context.Tensor("nodes_splits")),
        modes_(context.Tensor("nodes_modes")),
        weights_(context.Tensor("leaf_weights")),
        members_(context.Tensor("membership_values")) {}

  Result<TreeNodes> Read() {
    FUSEC_TRY(CheckSizes());
    const auto branches = static_cast<int64_t>(features_.size());
    const auto leaves = static_cast<int64_t>(targets_.size());
    // First the branches, then the leaves, then more nodes for sets.
    for (int64_t i = 0; i < branches + leaves; ++i) Add(0, 0, Mode::kLessOrEqual, false, i, i);
    for (int64_t i = 0; i < branches; ++i) FUSEC_TRY(ReadBranch(i));
    for (int64_t i = 0; i < leaves; ++i)
      trees_.weights.push_back({branches + i, targets_[i], weights_->GetDouble(i)});
    for (const int64_t root : context_.Ints("tree_roots")) {
      if (root < 0 || root >= branches)
        return context_.Fail(
            fmt::format("tree_roots has {}, expected 0 to {}", root, branches - 1));
      trees_.roots.push_back(root);
    }
    FUSEC_TRY(CheckFeatures(context_, trees_));
    FUSEC_TRY(Measure(context_, trees_));
    return std::move(trees_);
  }

 private:
  Result<void> CheckSizes() const {
    const size_t count = features_.size();
    const auto has = [&](const std::optional<TensorData>& tensor, size_t size) {
      return tensor && tensor->element_count() == static_cast<int64_t>(size);
    };
    const auto has_floats = [&](const std::optional<TensorData>& tensor, size_t size) {
      return has(tensor, size) && IsFloat(tensor->dtype());
    };
    const bool fits =
        on_true_.size() == count && on_false_.size() == count && true_leaves_.size() == count &&
        false_leaves_.size() == count && (missing_.empty() || missing_.size() == count) &&
        has_floats(splits_, count) && has(modes_, count) && IsInteger(modes_->dtype()) &&
        has_floats(weights_, targets_.size()) && (!members_ || IsFloat(members_->dtype()));
    if (fits) return {};
    return context_.Fail(
        "its lists do not have as many entries as it has nodes and leaves, or have other types");
  }

  void Add(int64_t feature, double threshold, Mode mode, bool missing, int64_t on_true,
           int64_t on_false) {
    trees_.features.push_back(feature);
    trees_.thresholds.push_back(threshold);
    trees_.modes.push_back(mode);
    trees_.missing_is_true.push_back(missing);
    trees_.on_true.push_back(on_true);
    trees_.on_false.push_back(on_false);
  }

  Result<int64_t> Child(int64_t number, bool is_leaf) const {
    const auto branches = static_cast<int64_t>(features_.size());
    const auto count = is_leaf ? static_cast<int64_t>(targets_.size()) : branches;
    if (number < 0 || number >= count) {
      return context_.Fail(fmt::format("a node leads to {} {}, expected 0 to {}",
                                       is_leaf ? "leaf" : "node", number, count - 1));
    }
    return is_leaf ? branches + number : number;
  }

  Result<void> ReadBranch(int64_t i) {
    constexpr Mode kModes[] = {Mode::kLessOrEqual, Mode::kLess,  Mode::kGreaterOrEqual,
                               Mode::kGreater,     Mode::kEqual, Mode::kNotEqual};
    constexpr int64_t kMember = 6;
    FUSEC_ASSIGN(const int64_t on_true, Child(on_true_[i], true_leaves_[i] != 0));
    FUSEC_ASSIGN(const int64_t on_false, Child(on_false_[i], false_leaves_[i] != 0));
    if (on_true == i || on_false == i)
      return context_.Fail(fmt::format("node {} leads to itself", i));
    const bool missing = !missing_.empty() && missing_[i] != 0;
    const int64_t mode = modes_->GetInt(i);
    if (mode < 0 || mode > kMember)
      return context_.Fail(fmt::format("the mode of node {} is {}, expected 0 to 6", i, mode));
    if (mode != kMember) {
      Set(i, splits_->GetDouble(i), kModes[mode], missing, on_true, on_false);
      return {};
    }
    // A comparison for each member of the set, up to the NaN that ends it.
    std::vector<double> set;
    const int64_t values = members_ ? members_->element_count() : 0;
    while (next_member_ < values && !std::isnan(members_->GetDouble(next_member_)))
      set.push_back(members_->GetDouble(next_member_++));
    ++next_member_;
    if (set.empty()) return context_.Fail(fmt::format("the set of node {} is empty", i));
    int64_t rest = on_false;
    for (size_t k = set.size(); k-- > 1;) {
      Add(features_[i], set[k], Mode::kEqual, missing, on_true, rest);
      rest = trees_.count() - 1;
    }
    Set(i, set[0], Mode::kEqual, missing, on_true, rest);
    return {};
  }

  void Set(int64_t i, double threshold, Mode mode, bool missing, int64_t on_true,
           int64_t on_false) {
    trees_.features[i] = features_[i];
    trees_.thresholds[i] = threshold;
    trees_.modes[i] = mode;
    trees_.missing_is_true[i] = missing;
    trees_.on_true[i] = on_true;
    trees_.on_false[i] = on_false;
  }

  const ImportContext& context_;
  const std::vector<int64_t> features_, on_true_, on_false_, true_leaves_, false_leaves_, missing_,
      targets_;
  const std::optional<TensorData> splits_, modes_, weights_, members_;
  int64_t next_member_ = 0;
  TreeNodes trees_;
};

}  // namespace

Result<TreeNodes> ReadTreeEnsemble(const ImportContext& context) {
  return EnsembleReader(context).Read();
}

}  // namespace fusec
