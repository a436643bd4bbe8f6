// Ensembles of decision trees. All rows walk down all trees together, one level after the other:
//
//   node = root[tree]                                               [rows, trees]
//   node = x[row, feature[node]] <= threshold[node] ? on_true[node] : on_false[node]    per level
//   score[row, target] = sum over trees of weight[node, target]
//
// Leaves lead to themselves. One kernel computes all levels of a row and a tree, since each is a
// chain of look-ups.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "compiler/import/ml/ml_ops.h"
#include "compiler/import/ml/tree_nodes.h"

namespace fusec {

namespace {

using Mode = TreeNodes::Mode;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

OpKind ComparisonOf(Mode mode) {
  switch (mode) {
    case Mode::kLessOrEqual:
      return OpKind::kLessOrEqual;
    case Mode::kLess:
      return OpKind::kLess;
    case Mode::kGreaterOrEqual:
      return OpKind::kGreaterOrEqual;
    case Mode::kGreater:
      return OpKind::kGreater;
    default:
      return OpKind::kEqual;  // kNotEqual is its negation
  }
}

class Walk {
 public:
  Walk(ImportContext& context, Formula& f, const TreeNodes& trees, Value* x)
      : builder_(context.builder()), f_(f), trees_(trees), x_(x) {}

  // The leaf of each row and tree, i32[rows, trees].
  Value* Leaves() {
    features_ = Constant(trees_.features, Dtype::kI32, "feature");
    on_true_ = Constant(trees_.on_true, Dtype::kI32, "on_true");
    on_false_ = Constant(trees_.on_false, Dtype::kI32, "on_false");
    thresholds_ =
        builder_.Constant(TensorData::From<double>(x_->type.dtype, {trees_.count()},
                                                   std::vector<double>(trees_.thresholds)),
                          "threshold");
    const auto& missing = trees_.missing_is_true;
    if (std::find(missing.begin(), missing.end(), true) != missing.end())
      missing_ = Constant({missing.begin(), missing.end()}, Dtype::kBool, "missing_is_true");
    for (int64_t node = 0; node < trees_.count(); ++node) {
      if (!trees_.IsLeaf(node)) used_.insert(trees_.modes[node]);
    }
    if (used_.size() > 1) {
      std::vector<int64_t> numbers;
      for (const Mode mode : trees_.modes) numbers.push_back(static_cast<int64_t>(mode));
      modes_ = Constant(numbers, Dtype::kI32, "mode");
    }
    const auto count = static_cast<int64_t>(trees_.roots.size());
    Value* node =
        f_.Expand(Constant(trees_.roots, Dtype::kI32, "root"), {x_->type.shape[0], Expr(count)});
    for (int64_t level = 0; level < trees_.depth; ++level) node = Next(node);
    return node;
  }

 private:
  Value* Constant(const std::vector<int64_t>& values, Dtype dtype, const std::string& name) {
    TensorData data(dtype, {static_cast<int64_t>(values.size())});
    for (size_t i = 0; i < values.size(); ++i) data.SetInt(static_cast<int64_t>(i), values[i]);
    return builder_.Constant(std::move(data), name);
  }

  Value* Next(Value* node) {
    Value* feature = f_.Gather(features_, node);
    Value* value = f_.Make(OpKind::kGatherElements, {x_, feature}, {{"axis", int64_t{1}}});
    Value* threshold = f_.Gather(thresholds_, node);
    Value* is_true = nullptr;
    Value* mode = modes_ ? f_.Gather(modes_, node) : nullptr;
    for (const Mode one : used_) {
      Value* holds = f_.Make(ComparisonOf(one), {value, threshold});
      if (one == Mode::kNotEqual) holds = f_.Unary(OpKind::kNot, holds);
      if (is_true == nullptr) {
        is_true = holds;
        continue;
      }
      Value* number = f_.Number(static_cast<double>(one), Dtype::kI32);
      is_true = f_.Where(f_.Make(OpKind::kEqual, {mode, number}), holds, is_true);
    }
    if (missing_ != nullptr) {
      Value* tracks =
          f_.Make(OpKind::kAnd, {f_.Unary(OpKind::kIsNaN, value), f_.Gather(missing_, node)});
      is_true = f_.Make(OpKind::kOr, {is_true, tracks});
    }
    return f_.Make(OpKind::kWhere, {is_true, f_.Gather(on_true_, node), f_.Gather(on_false_, node)},
                   {}, "node");
  }

  Builder& builder_;
  Formula& f_;
  const TreeNodes& trees_;
  Value* const x_;
  std::set<Mode> used_;
  Value *features_ = nullptr, *on_true_ = nullptr, *on_false_ = nullptr, *thresholds_ = nullptr;
  Value *missing_ = nullptr, *modes_ = nullptr;  // null if all nodes are alike
};

// How the weights of a row's leaves become its scores.
struct Aggregate {
  OpKind kind = OpKind::kReduceSum;
  bool is_average = false;
};

Result<Aggregate> AggregateNamed(const ImportContext& context, const std::string& name) {
  if (name == "SUM") return Aggregate{};
  if (name == "AVERAGE") return Aggregate{OpKind::kReduceSum, true};
  if (name == "MIN") return Aggregate{OpKind::kReduceMin, false};
  if (name == "MAX") return Aggregate{OpKind::kReduceMax, false};
  return context.Fail("aggregate_function is \"" + name + "\", expected SUM, AVERAGE, MIN or MAX");
}

// The scores [rows, targets] of the leaves [rows, trees].
Value* Scores(ImportContext& context, Formula& f, const TreeNodes& trees, Value* leaves,
              int64_t targets, const Aggregate& aggregate, Dtype dtype) {
  // A target without a weight in a leaf is left alone by it.
  const double none = aggregate.kind == OpKind::kReduceMin   ? kInfinity
                      : aggregate.kind == OpKind::kReduceMax ? -kInfinity
                                                             : 0;
  std::vector<double> table(trees.count() * targets, none);
  for (const TreeNodes::LeafWeight& leaf : trees.weights) {
    double& weight = table[leaf.node * targets + leaf.target];
    weight = weight == none ? leaf.weight : weight + leaf.weight;
  }
  std::vector<int64_t> dims = {trees.count(), targets};
  if (targets == 1) dims.pop_back();
  Value* weights = context.builder().Constant(
      TensorData::From<double>(dtype, std::move(dims), std::move(table)), "weight");
  Value* scores = f.Reduce(aggregate.kind, f.Gather(weights, leaves), {1}, targets == 1);
  if (none != 0) {
    Value* is_none = f.Make(OpKind::kEqual, {scores, f.Number(none, dtype)});
    scores = f.Where(is_none, f.Number(0, dtype), scores);
  }
  if (aggregate.is_average) scores = f.Div(scores, static_cast<double>(trees.roots.size()));
  return scores;
}

Result<void> CheckTargets(const ImportContext& context, const TreeNodes& trees, int64_t targets) {
  constexpr int64_t kMostWeights = int64_t{1} << 28;
  if (targets > kMostWeights / trees.count()) {
    return context.Fail(
        fmt::format("{} nodes and {} classes or targets, expected at most {} in all", trees.count(),
                    targets, kMostWeights));
  }
  for (const TreeNodes::LeafWeight& leaf : trees.weights) {
    if (leaf.target >= 0 && leaf.target < targets) continue;
    return context.Fail(fmt::format("a leaf has a weight for class or target {}, expected 0 to {}",
                                    leaf.target, targets - 1));
  }
  return {};
}

// Adds the base values to scores [rows, count].
Result<Value*> WithBase(const ImportContext& context, Formula& f, Value* scores, int64_t count) {
  const std::vector<double> base = NumbersOf(context, "base_values");
  if (base.empty()) return scores;
  if (static_cast<int64_t>(base.size()) != count)
    return context.Fail(fmt::format("{} base_values, expected {}", base.size(), count));
  return f.Add(scores, f.Tensor(scores->type.dtype, {count}, base));
}

// The scores of all targets after their transformation, in f32 unless `dtype` is f64.
Result<void> FinishRegression(ImportContext& context, Formula& f, const TreeNodes& trees,
                              const std::string& aggregate_name, const std::string& transform,
                              Dtype dtype) {
  const int64_t targets = context.Int("n_targets", 1);
  if (targets < 1) return context.Fail(fmt::format("n_targets is {}, expected 1 or more", targets));
  FUSEC_TRY(CheckTargets(context, trees, targets));
  FUSEC_ASSIGN(const Aggregate aggregate, AggregateNamed(context, aggregate_name));
  FUSEC_ASSIGN(Value * x, FeatureRows(context, f));
  Value* leaves = Walk(context, f, trees, x).Leaves();
  Value* scores = Scores(context, f, trees, leaves, targets, aggregate, dtype);
  FUSEC_ASSIGN(scores, WithBase(context, f, scores, targets));
  FUSEC_ASSIGN(scores, Transformed(context, f, scores, transform));
  return f.Finish({scores});
}

}  // namespace

Result<void> ImportTreeEnsembleRegressor(ImportContext& context) {
  Formula f(context);
  FUSEC_ASSIGN(const TreeNodes trees, ReadTreeNodes(context, "target"));
  return FinishRegression(context, f, trees, context.String("aggregate_function", "SUM"),
                          context.String("post_transform", "NONE"), Dtype::kF32);
}

Result<void> ImportTreeEnsemble(ImportContext& context) {
  Formula f(context);
  constexpr const char* kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  constexpr const char* kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const int64_t aggregate = context.Int("aggregate_function", 1);
  const int64_t transform = context.Int("post_transform", 0);
  if (aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4) {
    return context.Fail(
        fmt::format("aggregate_function is {} and post_transform {}, expected 0 to 3 and 0 to 4",
                    aggregate, transform));
  }
  FUSEC_ASSIGN(const TreeNodes trees, ReadTreeEnsemble(context));
  const Dtype dtype = context.input(0)->type.dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
  return FinishRegression(context, f, trees, kAggregates[aggregate], kTransforms[transform], dtype);
}

namespace {

// The scores of two labels that one score tells apart, since all weights are of one class. The
// second label is chosen if the score is above 1/2, where all weights are positive, or above 0. Of
// class 0, the score is the second label's, and the first has the rest or the negated score; of
// class 1, the first has 0. (onnxruntime, tree_ensemble_aggregator.h)
Result<void> FinishTwoLabels(ImportContext& context, Formula& f, const TreeNodes& trees,
                             Value* score, int64_t target) {
  const std::string transform = context.String("post_transform", "NONE");
  const Dtype dtype = score->type.dtype;
  const bool are_shares =
      std::all_of(trees.weights.begin(), trees.weights.end(),
                  [](const TreeNodes::LeafWeight& leaf) { return leaf.weight >= 0; });
  Value* is_second = f.Make(OpKind::kGreater, {score, f.Number(are_shares ? 0.5 : 0, dtype)});
  Value* chosen = f.Cast(f.Reshape(is_second, {score->type.shape[0]}), Dtype::kI64);
  Value* scores = nullptr;
  if (target == 1) {
    scores = f.Concat({f.Mul(score, 0.0), score}, 1);
    FUSEC_ASSIGN(scores, Transformed(context, f, scores, transform));
  } else if (transform == "LOGISTIC") {
    scores = f.Unary(OpKind::kSigmoid, f.Concat({f.Unary(OpKind::kNeg, score), score}, 1));
  } else {
    Value* first = are_shares ? f.Sub(f.Number(1, dtype), score) : f.Unary(OpKind::kNeg, score);
    scores = f.Concat({first, score}, 1);
  }
  return FinishClassifier(context, f, chosen, scores, "classlabels_int64s");
}

}  // namespace

Result<void> ImportTreeEnsembleClassifier(ImportContext& context) {
  Formula f(context);
  FUSEC_ASSIGN(TreeNodes trees, ReadTreeNodes(context, "class"));
  const auto labels = static_cast<int64_t>(std::max(context.Ints("classlabels_int64s").size(),
                                                    context.Strings("classlabels_strings").size()));
  if (labels < 2) return context.Fail(fmt::format("it has {} labels, expected 2 or more", labels));
  FUSEC_TRY(CheckTargets(context, trees, labels));
  FUSEC_ASSIGN(Value * x, FeatureRows(context, f));
  Value* leaves = Walk(context, f, trees, x).Leaves();
  std::set<int64_t> targets;
  for (const TreeNodes::LeafWeight& leaf : trees.weights) targets.insert(leaf.target);
  if (labels == 2 && targets.size() == 1) {
    const int64_t target = *targets.begin();
    for (TreeNodes::LeafWeight& leaf : trees.weights) leaf.target = 0;
    Value* score = Scores(context, f, trees, leaves, 1, {}, Dtype::kF32);
    if (target == 0) {
      FUSEC_ASSIGN(score, WithBase(context, f, score, 1));
    } else if (!NumbersOf(context, "base_values").empty()) {
      return context.Fail(
          "it has base_values, and weights of class 1 only, which is not supported");
    }
    return FinishTwoLabels(context, f, trees, score, target);
  }
  Value* scores = Scores(context, f, trees, leaves, labels, {}, Dtype::kF32);
  FUSEC_ASSIGN(scores, WithBase(context, f, scores, labels));
  return FinishByGreatest(context, f, scores, "classlabels_int64s");
}

}  // namespace fusec
