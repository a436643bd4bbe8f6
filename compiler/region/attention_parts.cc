#include "compiler/region/attention_parts.h"

#include <vector>

#include "compiler/ir/op_def.h"

namespace fusec {

namespace {

bool Is(const Node* node, OpKind kind) { return node != nullptr && node->kind == kind; }

// Whether a reduction keeps its operand's rank and folds the last axis only.
bool FoldsLastAxis(const Node& reduction) {
  const std::vector<int64_t> last = {static_cast<int64_t>(reduction.operand(0)->type.rank()) - 1};
  return reduction.Int("keepdims") == 1 && reduction.Ints("axes") == last;
}

// Whether both are batches of equally many [rows, columns] matrices, whatever their leading dims
// are.
bool SameMatrices(ShapeRef a, ShapeRef b) {
  return a.size() >= 2 && b.size() >= 2 && a.back() == b.back() &&
         a[a.size() - 2] == b[b.size() - 2] && Product(a) == Product(b);
}

class AttentionFinder {
 public:
  explicit AttentionFinder(const Node& values) { parts_.values = &values; }

  std::optional<AttentionParts> Find() {
    if (!Is(parts_.values, OpKind::kMatMul) || parts_.values->Int("transpose_a") != 0)
      return std::nullopt;
    parts_.has_softmax = FollowsSoftmax();
    if (!parts_.has_softmax) {
      parts_.nodes = {};
      parts_.guard = nullptr;
      parts_.score = parts_.values->operand(0);
    }
    if (!FollowsScores(parts_.score)) return std::nullopt;
    parts_.nodes.insert(parts_.values);
    return parts_;
  }

 private:
  // If `node` is where(isnan(p), number, p) or where(equal(.., number), number, p), the producer of
  // p; else null.
  static const Node* Guarded(const Node* node) {
    if (!Is(node, OpKind::kWhere)) return nullptr;
    const Node* test = node->operand(0)->producer;
    const bool tests_nan = Is(test, OpKind::kIsNaN) && test->operand(0) == node->operand(2);
    const bool tests_maximum = Is(test, OpKind::kEqual) &&
                               Is(test->operand(0)->producer, OpKind::kReduceMax) &&
                               test->operand(1)->type.ElementCount().IsConstant(1);
    const bool is_guard = (tests_nan || tests_maximum) &&
                          node->operand(1)->type.ElementCount().IsConstant(1) &&
                          node->result()->type.shape == node->operand(2)->type.shape;
    return is_guard ? node->operand(2)->producer : nullptr;
  }

  // Matches div(exp(sub(score, max(score))), sum(exp(..))), followed by reshapes, casts to other
  // floats, and a guard.
  bool FollowsSoftmax() {
    const Node* divide = parts_.values->operand(0)->producer;
    while (true) {
      const Node* guarded = parts_.guard ? nullptr : Guarded(divide);
      const bool passes_on = Is(divide, OpKind::kReshape) ||
                             (Is(divide, OpKind::kCast) && IsFloat(divide->result()->type.dtype));
      if (!guarded && !passes_on) break;
      parts_.nodes.insert(divide);
      if (guarded) {
        parts_.guard = divide;
        parts_.nodes.insert(divide->operand(0)->producer);
      }
      divide = guarded ? guarded : divide->operand(0)->producer;
    }
    if (!Is(divide, OpKind::kDiv)) return false;
    const Node* exponential = divide->operand(0)->producer;
    const Node* sum = divide->operand(1)->producer;
    if (!Is(exponential, OpKind::kExp) || !Is(sum, OpKind::kReduceSum) ||
        sum->operand(0) != exponential->result() || !FoldsLastAxis(*sum))
      return false;
    const Node* difference = exponential->operand(0)->producer;
    if (!Is(difference, OpKind::kSub)) return false;
    const Node* most = difference->operand(1)->producer;
    if (!Is(most, OpKind::kReduceMax) || most->operand(0) != difference->operand(0) ||
        !FoldsLastAxis(*most))
      return false;
    if (parts_.guard && Is(parts_.guard_test(), OpKind::kEqual) &&
        parts_.guard_test()->operand(0) != most->result())
      return false;
    parts_.score = difference->operand(0);
    parts_.nodes.insert({divide, exponential, sum, difference, most});
    return SameMatrices(parts_.values->operand(0)->type.shape, parts_.score->type.shape);
  }

  // Whether `value` is computed by pointwise ops from the product of queries and keys; adds all
  // nodes between.
  bool FollowsScores(const Value* value) {
    const Node* node = value->producer;
    if (node == nullptr || !SameMatrices(value->type.shape, parts_.score->type.shape)) return false;
    if (const auto known = follows_.find(node); known != follows_.end()) return known->second;
    bool follows = false;
    if (node->kind == OpKind::kMatMul) {
      follows = parts_.scores == nullptr;  // a second matmul is treated like any other operand
      parts_.scores = follows ? node : parts_.scores;
    } else if (GetOpDef(node->kind).op_class == OpClass::kPointwise ||
               node->kind == OpKind::kReshape) {
      for (const Value* operand : node->operands)
        follows = (operand && FollowsScores(operand)) || follows;
    }
    if (follows) parts_.nodes.insert(node);
    return follows_[node] = follows;
  }

  AttentionParts parts_;
  DenseMap<const Node*, bool> follows_;  // cache of FollowsScores, by producer
};

}  // namespace

std::optional<AttentionParts> FindAttention(const Node& values) {
  return AttentionFinder(values).Find();
}

}  // namespace fusec
