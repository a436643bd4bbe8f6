#include "passes/fuse_block_program.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/region/block_stages.h"
#include "compiler/region/reducers.h"
#include "passes/access_probe.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

constexpr int64_t kDeepest = 1024;                // terms that one thread adds up
constexpr int64_t kMostProductsPerRow = 1 << 20;  // multiplications of one product, in a block
constexpr int64_t kMostElementsPerRow = 8192;     // that a block writes for a row by itself

bool IsProduct(const Node& node) { return node.kind == OpKind::kMatMul; }

// The group around one matmul or reduction, while it grows.
class BlockGroup {
 public:
  BlockGroup(const Graph& graph, const Node& seed, size_t row_rank, int64_t block_shared_bytes)
      : graph_(graph),
        readers_(Readers(graph)),
        seed_(seed),
        block_shared_bytes_(block_shared_bytes) {
    const Shape& shape = seed.result()->type.shape;
    rows_ = Shape(shape.begin(), shape.begin() + static_cast<int64_t>(row_rank));
    nodes_.insert(&seed);
  }

  bool Grow() {
    why_ = WhyNever(seed_);
    if (why_.empty()) why_ = WhyIllegal();
    if (!why_.empty()) return false;
    if (IsProduct(seed_)) {
      while (AddAll([this](const Node& node) { return Touches(node); })) continue;
    } else {
      // Add everything that feeds a consumer before the next consumer, which may read values made
      // from it.
      do {
        while (AddAll([this](const Node& node) { return Feeds(node); })) continue;
      } while (AddOne([this](const Node& node) { return Follows(node); }));
    }
    LeaveLeaves();
    if (IsReduction(seed_)) return FoldsUnlikeRows() || JoinsSums();
    if (SavesALaunch()) return true;
    why_ = "the product with its bias and relu is one launch in any case";
    return false;
  }

  // Adds another group of the same rows, unless another kernel must run between the two. The sum of
  // their rows must be small, so that as many blocks as before share a multiprocessor.
  void Absorb(const BlockGroup& other) {
    if (other.rows_ != rows_) return;
    NodeSet all = nodes_;
    for (const Node* node : other.nodes_) {
      if (!all.insert(node).second) return;
    }
    std::swap(nodes_, all);
    const std::vector<BlockStage> stages = Stages();
    const bool fits = IsConvex(graph_, nodes_) && IsLegal() && !HasSharedProducts(stages) &&
                      KeptBytesPerRow(stages, rows_) <= kMostKeptBytes / 4;
    if (!fits) std::swap(nodes_, all);
  }

  // Reports why the group ends where it does, or, if no region was formed, why not.
  void ExplainEnds(PassReport& report) {
    for (const auto& node : graph_.nodes) {
      const bool is_settled = node->kind == OpKind::kConstant || node->kind == OpKind::kRegion;
      if (nodes_.count(node.get()) || is_settled || !IsNeighbour(*node)) continue;
      const std::string why = why_.empty() ? WhyOutside(*node) : why_;
      Refuse(report, readers_, nodes_, *node, why,
             "a block with more shared memory, or tiles in which rows share a matrix");
    }
  }

  // Transposes weights for tensor cores, which read them along the depth.
  void TurnWeights(Graph& graph) const {
    for (const BlockStage& stage : Stages()) {
      Node& product = *stage.value->producer;
      if (!stage.weights || product.Int("transpose_b") != 0) continue;
      const auto place = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                      [&](const auto& node) { return node.get() == &product; });
      Builder builder(graph, static_cast<size_t>(place - graph.nodes.begin()));
      Value* weights = product.operand(1);
      product.operands[1] =
          builder.Make(OpKind::kTranspose, {weights}, {{"perm", std::vector<int64_t>{1, 0}}},
                       weights->name + "_transposed");
      product.attributes["transpose_b"] = int64_t{1};
    }
  }

  // Whether the group needs several lines of a row at once: it multiplies two matrices of each row,
  // as attention does, or pools the lines that a product makes.
  bool MixesLines() const {
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const Node* node) {
      const auto has_rows = [&](int i) { return HasRows(node->operand(i), rows_); };
      if (IsProduct(*node)) return has_rows(0) && has_rows(1);
      if (!IsReduction(*node) || !has_rows(0)) return false;
      const auto& axes = node->Ints("axes");
      return node->operand(0)->type.rank() == seed_.result()->type.rank() && !axes.empty() &&
             axes[0] == static_cast<int64_t>(rows_.size());
    });
  }

  const NodeSet& nodes() const { return nodes_; }
  const Shape& rows() const { return rows_; }

 private:
  // AddAll adds all nodes that are `wanted`, AddOne the first of them that may join. Returns
  // whether any was added.
  bool AddAll(function_ref<bool(const Node&)> wanted) {
    bool grew = false;
    for (const auto& node : graph_.nodes) {
      if (!nodes_.count(node.get()) && wanted(*node)) grew |= Add(*node);
    }
    return grew;
  }
  bool AddOne(function_ref<bool(const Node&)> wanted) {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const auto& node) {
      return !nodes_.count(node.get()) && wanted(*node) && Add(*node);
    });
  }

  // Adds a node, or a chain that begins with it: after a transpose that breaks up rows there may be
  // one that restores them.
  bool Add(const Node& first) {
    constexpr int kLongestChain = 4;
    const NodeSet before = nodes_;
    const Node* node = &first;
    for (int length = 0; node && length < kLongestChain && MayJoin(*node); ++length) {
      nodes_.insert(node);
      if (IsConvex(graph_, nodes_) && IsLegal()) return true;
      auto found = readers_.find(node->result());
      const bool one = found != readers_.end() && found->second.size() == 1;
      node = one && !IsOutput(graph_, node->result()) ? found->second[0] : nullptr;
    }
    nodes_ = before;
    return false;
  }

  // Removes leaves as long as possible, and keeps the last legal group. Once a leaf is gone, its
  // operand may become a result that does not have the block's rows, until the producer of that
  // operand leaves as well.
  void LeaveLeaves() {
    NodeSet legal = nodes_;
    while (LeavesALeaf()) {
      if (IsLegal()) legal = nodes_;
    }
    nodes_ = std::move(legal);
  }

  // Removes one leaf: a node that only nodes outside the group read, in loops that can compute its
  // elements themselves, if its operands take less memory than its result. Returns whether there
  // was one.
  bool LeavesALeaf() {
    for (const Node* node : nodes_) {
      const OpClass op_class = GetOpDef(node->kind).op_class;
      const bool is_light = op_class == OpClass::kPointwise || op_class == OpClass::kGather ||
                            node->kind == OpKind::kReshape;
      if (!is_light || ReadersOf(graph_, readers_, nodes_, *node).inside) continue;
      if (!HasRows(node->result(), rows_)) continue;
      int64_t made_from = 0;  // elements per row; operands that all rows share do not count
      for (const Value* operand : node->operands) {
        if (operand && operand->producer && nodes_.count(operand->producer) &&
            HasRows(operand, rows_))
          made_from += ElementsPerRow(operand, rows_);
      }
      const bool grows =
          ElementsPerRow(node->result(), rows_) > made_from || node->kind == OpKind::kReshape;
      if (!grows || IsOutput(graph_, node->result()) || !IsReadInLoops(node->result())) continue;
      nodes_.erase(node);
      left_.insert(node);
      return true;
    }
    return false;
  }

  bool IsReadInLoops(const Value* value) const {
    const auto found = readers_.find(value);
    return found != readers_.end() &&
           std::all_of(found->second.begin(), found->second.end(), [&](const Node* reader) {
             const OpClass op_class = GetOpDef(reader->kind).op_class;
             return op_class == OpClass::kPointwise || op_class == OpClass::kGather ||
                    (reader->kind == OpKind::kReshape && IsReadInLoops(reader->result()));
           });
  }

  bool IsNeighbour(const Node& node) const {
    return Touches(node) || ReadersOf(graph_, readers_, nodes_, node).inside;
  }

  std::string WhyOutside(const Node& node) {
    if (const std::string why = WhyNever(node); !why.empty()) return why;
    if (!Touches(node)) return "it is read elsewhere too, so it is stored anyway";
    if (left_.count(&node))
      return "the loops that read it make its elements as well, from values that take less memory";
    nodes_.insert(&node);
    const std::string why = IsConvex(graph_, nodes_) ? WhyIllegal() : kBetween;
    nodes_.erase(&node);
    const bool feeds_in_vain = why.empty() && !IsProduct(seed_);  // as Feeds() says
    return feeds_in_vain ? "it follows a product directly, whose kernel computes it" : why;
  }

  bool MayJoin(const Node& node) const { return WhyNever(node).empty(); }

  // Why a thread block cannot compute a node from its rows, whatever the group is; "" if it can.
  std::string WhyNever(const Node& node) const {
    const std::string text = GetOpDef(node.kind).text;
    switch (GetOpDef(node.kind).op_class) {
      case OpClass::kPointwise:
      case OpClass::kGather:
        return WhyWide(node);
      case OpClass::kView: {
        const bool in_row =
            node.kind != OpKind::kConcat || node.Int("axis") >= static_cast<int64_t>(rows_.size());
        return in_row ? ""
                      : "it concatenates tensors along the rows that are distributed over blocks";
      }
      case OpClass::kReduction:
        if (node.kind == OpKind::kArgMax || node.kind == OpKind::kArgMin)
          return text + " is not a reduction that a block program computes";
        return WhyLong(node);
      case OpClass::kContraction:
        return WhyBig(node);
      default:
        return text + " is not an op that a block program computes";
    }
  }

  // Why a value is too wide for one thread block to write its row; "" if it is not.
  std::string WhyWide(const Node& node) const {
    const int64_t elements =
        HasRows(node.result(), rows_) ? ElementsPerRow(node.result(), rows_) : 0;
    if (elements <= kMostElementsPerRow) return "";
    return "%" + node.result()->name + " has " + std::to_string(elements) +
           " elements per row, which one block would take too long to write; the limit is " +
           std::to_string(kMostElementsPerRow);
  }

  // Why a sum is too long for the few threads that share it; "" if it is not.
  static std::string WhyLong(const Node& reduction) {
    const std::string reduces = std::string(GetOpDef(reduction.kind).text) + " reduces ";
    const auto length = Product(ReducedDims(reduction)).AsConstant();
    if (!length) return reduces + "a symbolic dim";
    if (*length <= kMostElementsPerRow) return "";
    return reduces + std::to_string(*length) +
           " elements, which would take a warp too long; the limit is " +
           std::to_string(kMostElementsPerRow);
  }

  // Why a thread block would compute the product more slowly than a library, which shares operands
  // between rows; "" if it would not.
  std::string WhyBig(const Node& matmul) const {
    if (matmul.kind != OpKind::kMatMul || !IsFloat(matmul.result()->type.dtype))
      return "it is not a product of floats";
    const std::string product = "%" + matmul.result()->name;
    if (!HasRows(matmul.result(), rows_)) return product + " has other leading dims than the block";
    const int64_t elements = ElementsPerRow(matmul.result(), rows_);
    const int64_t depth = MatMulDepth(matmul).AsConstant().value_or(kDeepest + 1);
    if (elements == 0) return product + " has rows of a size that is not constant";
    if (depth > kDeepest) {
      return "one thread would add up " + MatMulDepth(matmul).ToString() +
             " terms for each element of " + product + "; the limit is " + std::to_string(kDeepest);
    }
    const bool by_weights = IsConstant(matmul.operand(0));
    const int64_t most = by_weights ? kMostProductsByWeights : kMostProductsPerRow;
    if (elements * depth > most) {
      return product + " takes " + std::to_string(elements * depth) +
             " multiplications per row in one block; the limit is " + std::to_string(most);
    }
    // Every thread block reads again what does not belong to its rows.
    const Shape& right = matmul.operand(1)->type.shape;
    const bool own_matrix =
        right.size() == matmul.result()->type.shape.size() && rows_.size() + 2 <= right.size();
    const Expr shared = right[right.size() - 2] * right.back();
    if (own_matrix || IsSharedProduct(matmul) ||
        shared.AsConstant().value_or(kMostSharedWeights + 1) <= kMostSharedWeights)
      return "";
    return "every block would read a matrix of " + shared.ToString() + " elements for " + product +
           " again; the limit is " + std::to_string(kMostSharedWeights);
  }

  // Whether tensor cores compute the product by weights that the block keeps in shared memory.
  bool IsSharedProduct(const Node& node) const {
    return block_shared_bytes_ > 0 && FindSharedProduct(node, rows_) && IsConstant(node.operand(1));
  }

  bool Follows(const Node& node) const {
    return std::any_of(node.operands.begin(), node.operands.end(), [&](const Value* operand) {
      return operand && operand->producer && nodes_.count(operand->producer);
    });
  }

  // Whether the node is a consumer of the group, or a producer whose readers are all inside.
  bool Touches(const Node& node) const {
    if (Follows(node)) return true;
    const GroupReaders readers = ReadersOf(graph_, readers_, nodes_, node);
    return readers.inside && !readers.outside;
  }

  // Whether the node is a producer, which is also stored if others read it. An op directly behind a
  // product is better computed in the kernel of that product.
  bool Feeds(const Node& node) const {
    if (!ReadersOf(graph_, readers_, nodes_, node).inside) return false;
    return std::none_of(node.operands.begin(), node.operands.end(), [](const Value* operand) {
      return operand && operand->producer && IsProduct(*operand->producer);
    });
  }

  bool IsLegal() const { return WhyIllegal().empty(); }

  std::vector<BlockStage> Stages() const {
    std::vector<const Node*> ordered;
    for (const auto& node : graph_.nodes) {
      if (nodes_.count(node.get())) ordered.push_back(node.get());
    }
    const auto read_outside = [this](const Value* value) {
      return ReadersOf(graph_, readers_, nodes_, value).outside;
    };
    if (block_shared_bytes_ == 0) return FindBlockStages(ordered, rows_, read_outside);
    const auto is_weights = [](const Value* value) { return IsConstant(value); };
    return FindBlockStages(ordered, rows_, read_outside, {false, is_weights});
  }

  // The bytes that the kept values of a row and the weights may take together.
  int64_t MostKeptBytes(ArrayRef<BlockStage> stages) const {
    // Padding behind lines takes an eighth, and a thread block that takes all shared memory of an
    // SM leaves no room for a second one.
    return HasSharedProducts(stages) ? block_shared_bytes_ / 4 * 3 : kMostKeptBytes;
  }

  std::string WhyIllegal() const {
    const std::vector<BlockStage> stages = Stages();
    if (stages.empty()) return "a value that a block would keep does not have the block's rows";
    const int64_t bytes = KeptBytesPerRow(stages, rows_) + SharedWeightBytes(stages);
    if (const int64_t most = MostKeptBytes(stages); bytes > most) {
      return "a row would take " + std::to_string(bytes) +
             " bytes of shared memory; the limit is " + std::to_string(most);
    }
    for (const BlockStage& stage : stages) {
      if (!StaysInItsRow(stage, stages))
        return "%" + stage.value->name + " needs values of rows that other blocks compute";
    }
    return "";
  }

  // Whether an element of `stage` needs values of earlier stages only from its own row.
  bool StaysInItsRow(const BlockStage& stage, ArrayRef<BlockStage> stages) const {
    AccessProbe probe(nodes_, graph_.SymbolRanges());
    const Exprs index = probe.AnyElementOf(stage.value->type.shape);
    const Exprs row(index.begin(), index.begin() + static_cast<int64_t>(rows_.size()));
    for (const BlockStage& other : stages) {
      if (other.value != stage.value) probe.ExpectRow(other.value, row);
    }
    return probe.FollowsProducer(stage.value, index);
  }

  // Whether the ops would take more than one launch without this region: the library computes a
  // product with its bias and ReLU in one launch.
  bool SavesALaunch() const {
    int reducers = 0;
    for (const Node* node : nodes_) {
      if (IsReducer(*node))
        ++reducers;
      else if (node->kind != OpKind::kAdd && node->kind != OpKind::kRelu &&
               node->kind != OpKind::kReshape)
        return true;
    }
    return reducers > 1;
  }

  // Whether reductions over different rows feed each other, which would otherwise be one kernel
  // each. Reductions that pool rows for a concatenation do not count.
  bool FoldsUnlikeRows() const {
    std::set<std::pair<std::string, std::vector<int64_t>>> rows;
    for (const BlockStage& stage : Stages()) {
      if (stage.value->producer->kind == OpKind::kConcat) continue;
      for (const Node* reducer : stage.inlined) {
        if (!IsProduct(*reducer))
          rows.emplace(reducer->operand(0)->type.ToString(), reducer->Ints("axes"));
      }
    }
    return rows.size() > 1;
  }

  // Whether several sums with one element per row are concatenated, such as the answers of a model
  // for several tasks.
  bool JoinsSums() const {
    int sums = 0, concats = 0;
    for (const Node* node : nodes_) {
      if (GetOpDef(node->kind).op_class == OpClass::kGather) return false;
      sums += IsReduction(*node) && ElementsPerRow(node->result(), rows_) == 1;
      concats += node->kind == OpKind::kConcat;
    }
    return sums > 1 && concats > 0;
  }

  const Graph& graph_;
  ReaderMap readers_;
  const Node& seed_;
  const int64_t block_shared_bytes_;
  NodeSet nodes_;
  NodeSet left_;  // leaves that are left to the loops that read them
  Shape rows_;
  std::string why_;  // why no region was formed
};

struct RowRank {
  size_t rank;                 // leading dims to try as rows
  bool only_if_mixed = false;  // only for a group that MixesLines
};

// The numbers of leading dims to try, fewest first: the more a thread block owns, the less goes
// through memory.
std::vector<RowRank> RowRanks(const Node& seed, int64_t block_shared_bytes) {
  const Shape& shape = seed.result()->type.shape;
  const size_t rank = shape.size();
  if (IsProduct(seed) && seed.operand(1)->type.rank() == 2) {
    if (rank < 3) return {{rank - 1}};
    // Without tensor cores, threads compute each line by itself, so that a block per line is as
    // good as one for all lines of a row, unless later products need all of them.
    const Shape rows(shape.begin(), shape.end() - 2);
    const bool is_shared = block_shared_bytes > 0 && FindSharedProduct(seed, rows);
    return {{rank - 2, !is_shared}, {rank - 1}};
  }
  if (IsProduct(seed)) return {{rank - 2}, {rank - 1}};
  const std::vector<int64_t> axes = seed.Ints("axes");
  const int64_t first = axes.empty() ? 0 : *std::min_element(axes.begin(), axes.end());
  if (first == 0) return {};
  return {{static_cast<size_t>(first)}};
}

// The group around `seed` with the fewest leading dims as rows for which there is one. Calls
// `visit` with each group that was tried, and whether it is legal.
template <class Visit>
std::optional<BlockGroup> FindGroup(const Graph& graph, const Node& seed,
                                    const PassOptions& options, const Visit& visit) {
  for (const RowRank& rows : RowRanks(seed, options.block_shared_bytes)) {
    BlockGroup group(graph, seed, rows.rank, options.block_shared_bytes);
    const bool grown = group.Grow();
    if (rows.only_if_mixed && !(grown && group.MixesLines())) continue;
    visit(group, grown);
    if (grown) return group;
  }
  return std::nullopt;
}

// Adds the groups that grow from later nodes, where one launch can compute them as well: the gates
// of several tasks, for example.
void AbsorbLaterGroups(bool (*is_seed)(const Node&), const Graph& graph, size_t seed,
                       const PassOptions& options, BlockGroup& group) {
  for (size_t i = seed + 1; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i];
    if (!is_seed(node) || group.nodes().count(&node) != 0) continue;
    const auto other = FindGroup(graph, node, options, [](BlockGroup&, bool) {});
    if (other) group.Absorb(*other);
  }
}

// Makes regions of the groups that grow from the nodes for which `is_seed` is true.
bool FuseFrom(bool (*is_seed)(const Node&), Graph& graph, const PassOptions& options,
              PassReport& report) {
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i];
    if (!is_seed(node)) continue;
    const auto explain = [&](BlockGroup& group, bool grown) {
      if (grown || IsProduct(node)) group.ExplainEnds(report);
    };
    std::optional<BlockGroup> group = FindGroup(graph, node, options, explain);
    if (!group) continue;
    AbsorbLaterGroups(is_seed, graph, i, options, *group);
    group->TurnWeights(graph);
    Node* region = MakeRegion(graph, group->nodes(), RegionClass::kBlockProgram);
    region->attributes["rows"] = group->rows();
    changed = true;
    i = static_cast<size_t>(-1);  // the nodes moved: look again from the first
  }
  return changed;
}

}  // namespace

std::optional<NodeSet> FindBlockProgram(const Graph& graph, const Node& seed,
                                        const PassOptions& options) {
  const std::optional<BlockGroup> group = FindGroup(graph, seed, options, [](BlockGroup&, bool) {});
  return group ? std::optional(group->nodes()) : std::nullopt;
}

Result<bool> FuseBlockProgram(Graph& graph, const PassOptions& options, PassReport& report) {
  const bool products = FuseFrom(IsProduct, graph, options, report);
  return FuseFrom(IsReduction, graph, options, report) || products;
}

}  // namespace fusec
