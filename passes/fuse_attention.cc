#include "passes/fuse_attention.h"

#include <algorithm>
#include <limits>

#include "compiler/index/reshape.h"
#include "compiler/ir/op_def.h"
#include "compiler/region/attention_parts.h"
#include "compiler/region/attention_tiles.h"
#include "compiler/region/reducers.h"
#include "passes/access_probe.h"
#include "passes/fuse_block_program.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// With at least so many keys and queries, tiles are full enough to be faster than a block program.
constexpr int64_t kFewKeys = 32, kFewQueries = 16;
// How many times fewer cycles tiles must take than a block program, by an estimate that no
// measurement has confirmed.
constexpr double kMargin = 3;
// Without clusters, the most keys over which a block with few queries may walk: 64 keys take about
// 0.75 us, which is the latency of the copies of the next tile. So many keys take about as long as
// the launches of two products and a softmax; in both cases the GPU is mostly idle unless there are
// many heads. The blocks of a cluster share the keys.
constexpr int64_t kMostKeysOfFewQueries = 512;
constexpr int64_t kWholeVectors = 4;

bool IsView(const Node& node) { return GetOpDef(node.kind).op_class == OpClass::kView; }

class AttentionGroup {
 public:
  AttentionGroup(const Graph& graph, const PassOptions& options, AttentionParts parts)
      : graph_(graph),
        options_(options),
        readers_(Readers(graph)),
        parts_(std::move(parts)),
        nodes_(parts_.nodes) {
    result_ = parts_.values->result();
  }

  bool Grow() {
    why_ = WhyNever();
    if (why_.empty() && !IsConvex(graph_, nodes_)) why_ = kBetween;
    if (why_.empty()) why_ = WhyIllegal();
    if (!why_.empty()) return false;
    while (AddProducer()) continue;
    while (AddConsumer()) continue;
    return true;
  }

  void ExplainEnds(PassReport& report) {
    if (!why_.empty()) nodes_ = {parts_.values};
    for (const auto& node : graph_.nodes) {
      const bool is_settled = node->kind == OpKind::kConstant || node->kind == OpKind::kRegion;
      if (is_settled || nodes_.count(node.get())) continue;
      Refuse(
          report, readers_, nodes_, *node,
          !why_.empty() ? why_ : "it is not a view or pointwise op that only this attention reads",
          "an attention kernel that computes it");
    }
  }

  const AttentionParts& parts() const { return parts_; }
  const NodeSet& nodes() const { return nodes_; }

 private:
  std::string WhyNever() const {
    const Node &scores = *parts_.scores, &values = *parts_.values;
    const Dtype dtype = values.result()->type.dtype;
    if (!parts_.has_softmax && (IsWeights(scores) || IsWeights(values)))
      return "its keys or values are weights: it is a chain of layers";
    if (!parts_.has_softmax && parts_.score == scores.result())
      return "nothing stands between its products, so their order can be changed";
    const bool is_float = dtype == Dtype::kF32 || dtype == Dtype::kF16 || dtype == Dtype::kBF16;
    if (!is_float || scores.result()->type.dtype != dtype)
      return "tensor cores need f32, f16 or bf16, the same type in both products";
    if (parts_.guard && ScalarConstant(parts_.guard->operand(1)) != 0.0)
      return "NaN probabilities are replaced by a value other than zero";
    if (parts_.guard && parts_.guard_test()->kind == OpKind::kEqual &&
        ScalarConstant(parts_.guard_test()->operand(1)) != -std::numeric_limits<double>::infinity())
      return "probabilities are replaced where the greatest score is not -infinity";
    for (const Expr& extent : {MatMulDepth(scores), values.result()->type.shape.back()}) {
      const int64_t elements = extent.AsConstant().value_or(0);
      if (elements == 0 || elements > kMostHeadElements || elements % kWholeVectors != 0)
        return "keys and values have " + extent.ToString() + " elements, expected a multiple of " +
               std::to_string(kWholeVectors) + " up to " + std::to_string(kMostHeadElements);
    }
    return WhySlow();
  }

  // Why kernels of other classes are faster, since there are few keys or queries; "" if they are
  // not.
  std::string WhySlow() const {
    const AttentionSizes sizes = SizesOf(parts_, graph_.SymbolRanges(), options_.matmul_precision);
    if (sizes.keys >= kFewKeys && sizes.queries >= kFewQueries) return "";
    if (IsWeights(*parts_.scores) || IsWeights(*parts_.values))
      return "all rows share its few keys or values, like weights";
    if (IsMadeWithItsLayers())
      return "it has few keys or queries, and a block program makes what it reads as well";
    const std::optional<NodeSet> program = FindBlockProgram(graph_, *parts_.scores, options_);
    if (program && program->count(parts_.values)) {
      if (std::any_of(program->begin(), program->end(), [&](const Node* node) {
            return IsReducer(*node) && !parts_.nodes.count(node);
          }))
        return "it has few keys or queries, and a block program makes what it reads as well";
      const AttentionCycles cycles = EstimateCycles(sizes);
      if (cycles.by_block_program <= kMargin * cycles.by_tiles)
        return "there are few keys or queries, so tiles would be mostly empty";
    } else if (!options_.has_clusters && sizes.queries < kFewQueries &&
               sizes.keys > kMostKeysOfFewQueries) {
      return "a block would walk over all keys for few queries";
    }
    return "";
  }

  // Whether a block program that begins with a layer before the attention also computes the
  // attention.
  bool IsMadeWithItsLayers() const {
    std::vector<const Value*> work = {parts_.scores->operand(0), parts_.scores->operand(1),
                                      parts_.values->operand(1)};
    ValueSet seen;
    while (!work.empty()) {
      const Value* value = work.back();
      work.pop_back();
      const Node* node = value ? value->producer : nullptr;
      if (!node || !seen.insert(value).second) continue;
      const OpClass op_class = GetOpDef(node->kind).op_class;
      if (node->kind == OpKind::kMatMul && IsMadeOfConstants(node->operand(1))) {
        const std::optional<NodeSet> program = FindBlockProgram(graph_, *node, options_);
        if (program && program->count(parts_.values)) return true;
      } else if (op_class == OpClass::kView || op_class == OpClass::kPointwise) {
        work.insert(work.end(), node->operands.begin(), node->operands.end());
      }
    }
    return false;
  }

  // Whether the right operand acts as weights: all left matrices are multiplied by the same matrix,
  // or by constants.
  static bool IsWeights(const Node& matmul) {
    const Value *left = matmul.operand(0), *right = matmul.operand(1);
    return IsMadeOfConstants(right) || (right->type.rank() == 2 && left->type.rank() > 2);
  }
  static bool IsMadeOfConstants(const Value* value) {
    const Node* node = value ? value->producer : nullptr;
    if (!node || node->kind == OpKind::kConstant) return node != nullptr;
    return !node->operands.empty() &&
           std::all_of(node->operands.begin(), node->operands.end(),
                       [](const Value* v) { return IsMadeOfConstants(v); });
  }

  // Why the kernel could not compute the group's values from the score at hand; "" if it can.
  std::string WhyIllegal() const {
    for (const Node* node : nodes_) {
      for (const auto& value : node->results) {
        if (value.get() != result_ && ReadersOf(graph_, readers_, nodes_, value.get()).outside)
          return "%" + value->name + " is read elsewhere too";
      }
    }
    AccessProbe probe(nodes_, graph_.SymbolRanges());
    const Exprs at = probe.AnyElementOf(parts_.score->type.shape);
    probe.Expect(parts_.scores->result(),
                 IndexBeforeReshape(at, parts_.scores->result()->type.shape,
                                    parts_.score->type.shape, probe.ranges()));
    if (!probe.Follows(parts_.score, at)) return "a score needs products of other queries or keys";
    for (const auto& [matmul, side] :
         {std::pair{parts_.scores, 0}, {parts_.scores, 1}, {parts_.values, 1}}) {
      if (Makes(matmul->operand(side), parts_.scores))
        return "its queries, keys or values are made from its own scores";
    }
    return "";
  }

  // Whether `value` is a result of `node`, or made from one inside the group.
  bool Makes(const Value* value, const Node* node) const {
    const Node* producer = value ? value->producer : nullptr;
    if (producer == node) return true;
    if (!producer || !nodes_.count(producer)) return false;
    return std::any_of(producer->operands.begin(), producer->operands.end(),
                       [&](const Value* operand) { return Makes(operand, node); });
  }

  bool Add(const Node& node) {
    nodes_.insert(&node);
    if (IsConvex(graph_, nodes_) && WhyIllegal().empty()) return true;
    nodes_.erase(&node);
    return false;
  }

  // Adds a view, a cheap op or a look-up for the scores (biases by relative positions) that only
  // the group reads; each tile computes its elements again. Returns whether there was one.
  bool AddProducer() {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const auto& node) {
      const bool is_light = IsView(*node) || IsCheap(*node) || IsLookUpForScores(*node);
      if (nodes_.count(node.get()) || !is_light) return false;
      const GroupReaders readers = ReadersOf(graph_, readers_, nodes_, *node);
      return readers.inside && !readers.outside && Add(*node);
    });
  }

  // Queries, keys and values that are looked up are copied from memory in larger pieces.
  bool IsLookUpForScores(const Node& node) const {
    const OpDef& def = GetOpDef(node.kind);
    if (def.op_class != OpClass::kGather || (def.algebra & kFolds) != 0) return false;
    return !Makes(parts_.scores->operand(0), &node) && !Makes(parts_.scores->operand(1), &node) &&
           !Makes(parts_.values->operand(1), &node);
  }
  // Whether the node may be computed again for every tile. An op directly behind a product is
  // better computed in the kernel of that product.
  static bool IsCheap(const Node& node) {
    const OpDef& def = GetOpDef(node.kind);
    return def.op_class == OpClass::kPointwise && (def.algebra & kExpensive) == 0 &&
           std::none_of(node.operands.begin(), node.operands.end(), IsMadeByProduct);
  }
  // Whether `value` is made by a product, by a product of slots (slot_matmul), or by the sum of
  // both.
  static bool IsMadeByProduct(const Value* value) {
    const Node* node = value ? value->producer : nullptr;
    if (node == nullptr) return false;
    const bool is_adapted =
        node->kind == OpKind::kAdd &&
        std::any_of(node->operands.begin(), node->operands.end(), [](const Value* operand) {
          return operand->producer && operand->producer->kind == OpKind::kSlotMatMul;
        });
    return is_adapted || node->kind == OpKind::kMatMul || node->kind == OpKind::kSlotMatMul;
  }

  // Adds the only reader of the result, if it is a pointwise op on the elements of the result or a
  // view of it. Returns whether there was one.
  bool AddConsumer() {
    const auto found = readers_.find(result_);
    if (found == readers_.end() || found->second.size() != 1 || IsOutput(graph_, result_))
      return false;
    const Node& node = *found->second[0];
    const bool moves = node.kind == OpKind::kReshape || node.kind == OpKind::kTranspose;
    const bool maps = node.kind == OpKind::kCast && result_ == parts_.values->result();
    if (!moves && !maps) return false;
    const Value* before = result_;
    result_ = node.result();
    if (Add(node)) return true;
    result_ = before;
    return false;
  }

  const Graph& graph_;
  const PassOptions& options_;
  ReaderMap readers_;
  AttentionParts parts_;
  NodeSet nodes_;
  const Value* result_;
  std::string why_;
};

// matmul(q, mul(k, scale)) of `group` becomes matmul(mul(q, scale), k), if nothing else reads the
// scaled keys.
void MoveScaleToQueries(Graph& graph, const AttentionGroup& group) {
  Node* scores = group.parts().scores->result()->producer;
  Node* scale = scores->operand(1)->producer;
  if (!scale || scale->kind != OpKind::kMul || !group.nodes().count(scale) ||
      !ScalarConstant(scale->operand(1)) || scale->operand(1)->type.rank() > 1 ||
      scores->operand(0) == scale->result() ||
      !HasOneReader(graph, Readers(graph), scale->result()))
    return;
  Value* queries = scores->operand(0);
  scores->operands = {scale->result(), scale->operand(0)};
  scale->operands[0] = queries;
  scale->result()->type = queries->type;
  SortNodes(graph);
}

}  // namespace

Result<bool> FuseAttention(Graph& graph, const PassOptions& options, PassReport& report) {
  bool changed = false;
  NodeSet refused;  // first products of groups that were refused
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node* values = graph.nodes[i].get();
    auto parts = refused.count(values) ? std::nullopt : FindAttention(*values);
    if (!parts) continue;
    AttentionGroup group(graph, options, *std::move(parts));
    const bool grown = group.Grow();
    group.ExplainEnds(report);
    if (!grown) {
      refused.insert(values);
      continue;
    }
    MoveScaleToQueries(graph, group);
    MakeRegion(graph, group.nodes(), RegionClass::kAttention);
    changed = true;
    i = static_cast<size_t>(-1);  // the nodes moved: look again from the first
  }
  return changed;
}

}  // namespace fusec
