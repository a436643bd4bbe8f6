#include "passes/fuse_matmul_prologue.h"

#include "compiler/ir/host_table.h"
#include "compiler/ir/op_def.h"
#include "compiler/region/product.h"
#include "passes/fuse_matmul_tail.h"
#include "passes/share_long_sums.h"

namespace fusec {

namespace {

// For long sums: the operand must have so many times the elements of the data it is made from.
constexpr int64_t kManyTimes = 8;
// For other sums: the same ratio times 2, that is 1.5. Below it, copying the operand is faster.
constexpr int64_t kTwiceLeastTimes = 3;
// The number of columns whose extra time in a generated kernel equals the time of moving the
// operand once; such a kernel takes up to 1.5 times as long as the library's. On an H200, moving a
// TF32 element takes the time of 4 bytes * 395 TFLOP/s / 4.25 TB/s = 372 operations, which is half
// of the operations of 372 columns; for f16 and bf16 it is 348.
constexpr int64_t kColumnsPerMove = 256;
constexpr int64_t kTileColumns = 128;
constexpr int64_t kFewestTerms = 64;  // per sum; with fewer, tiles are mostly empty
// With more terms, a block that makes its operand takes too long where there are few blocks. On an
// H200, 11,664 terms by 32 columns took 594, 610 and 787 us for 64, 1,024 and 16,384 rows, and take
// 19, 70 and 745 us with the operand in memory (2026-11-29-h200-long-prologue.txt).
constexpr int64_t kMostTerms = 4096;

bool IsLong(const ProductShape& product) {
  return product.matrices * product.k >= kFewestSharedTerms;
}

// Whether the node is a product by constant weights whose kernel may compute the left operand. Such
// a kernel does not split long sums over thread blocks itself; it has blocks for each part of a sum
// that is split already: [s, m, k] by weights [s, n, k].
bool MayMakeOperand(const Node& node) {
  const std::optional<ProductShape> product = FindProductShape(node);
  if (!product || !IsConstant(node.operand(1))) return false;
  const Shape &a = node.operand(0)->type.shape, &weights = node.operand(1)->type.shape;
  return !IsLong(*product) || (a.size() == 3 && weights.size() == 3 && a[0] == weights[0]);
}

// Whether `node` looks up rows by ids that are not known before a run.
bool LooksUpRows(const Node& node) {
  return node.kind == OpKind::kGather && !IsConstant(node.operand(1));
}

// Pointwise ops after a product or a reduction, whose kernel computes them from values that it has
// at hand.
NodeSet Tails(const Graph& graph) {
  NodeSet tails;
  for (const auto& node : graph.nodes) {
    if (GetOpDef(node->kind).op_class != OpClass::kPointwise) continue;
    for (const Value* operand : node->operands) {
      while (operand && operand->producer && operand->producer->kind == OpKind::kReshape)
        operand = operand->producer->operand(0);
      const Node* producer = operand ? operand->producer : nullptr;
      if (!producer || operand->type.ElementCount() != node->result()->type.ElementCount())
        continue;
      if (producer->kind == OpKind::kMatMul || producer->kind == OpKind::kRegion ||
          IsReduction(*producer) || tails.count(producer))
        tails.insert(node.get());
    }
  }
  return tails;
}

// Grows the prologue of a product.
class Prologue {
 public:
  Prologue(const Graph& graph, const ReaderMap& readers, const Node& matmul)
      : graph_(graph), readers_(readers), matmul_(matmul), tails_(Tails(graph)) {}

  NodeSet Find() {
    if (NodeSet decoding = Decoding(); !decoding.empty()) return decoding;
    group_ = {&matmul_};
    uses_[&matmul_] = 1;
    // Walks from the product to its producers, so that all readers of a node are visited before the
    // node.
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = *graph_.nodes[i];
      if (node.results.size() != 1 || !IsOp(node)) continue;
      const GroupReaders read = ReadersOf(graph_, readers_, group_, node);
      if (!read.inside || read.outside) continue;
      const double uses = UsesOf(node.result());
      if (!IsCheap(node, uses)) continue;
      group_.insert(&node);
      uses_[&node] = uses;
    }
    group_.erase(&matmul_);
    if (!group_.empty() && !Pays()) group_.clear();
    return group_;
  }

 private:
  // The nodes that decode the left operand, if it consists of fp8 codes: tensor cores read the
  // codes, so the decoded numbers should not be stored.
  NodeSet Decoding() const {
    NodeSet nodes;
    const auto rows = FindFloat8Rows(matmul_);
    if (!rows) return nodes;
    for (const Node* node = matmul_.operand(0)->producer; node != nullptr;
         node = node->operand(0)->producer) {
      if (!HasOneReader(graph_, readers_, node->result())) return {};
      nodes.insert(node);
      if (node->operand(0) == rows->codes) break;
    }
    return nodes;
  }

  static bool IsOp(const Node& node) {
    switch (node.kind) {
      case OpKind::kConcat:
      case OpKind::kExpand:
      case OpKind::kReshape:
      case OpKind::kSlice:
      case OpKind::kTranspose:
        return true;
      case OpKind::kGather:
        // Rows in host memory come over the bus and should be read only once.
        return !LooksUpRows(node) || (node.Int("axis") == 0 && !IsHostTable(node.operand(0)));
      default:
        return GetOpDef(node.kind).op_class == OpClass::kPointwise;
    }
  }

  int64_t Elements(const Value* value) const { return ElementsForOnes(graph_, value); }

  // How often each element of `value`, which only the group reads, is used to compute the operand.
  double UsesOf(const Value* value) const {
    const auto elements = static_cast<double>(std::max<int64_t>(Elements(value), 1));
    double uses = 0;
    for (const Node* reader : readers_.at(value)) {
      // The product and a concatenation use each element once. An index counts as used once for the
      // whole row that it chooses.
      const bool takes_each_once = reader == &matmul_ || reader->kind == OpKind::kConcat ||
                                   (reader->kind == OpKind::kGather && reader->operand(1) == value);
      const double repeats =
          takes_each_once ? 1 : static_cast<double>(Elements(reader->result())) / elements;
      uses += repeats * uses_.at(reader);
    }
    return uses;
  }

  // Whether computing a node's elements at each use costs little. A pointwise op whose elements are
  // used many times is better computed once.
  bool IsCheap(const Node& node, double uses) const {
    const OpDef& def = GetOpDef(node.kind);
    if (def.op_class != OpClass::kPointwise) return true;
    constexpr double kFewUses = 2;
    return (def.algebra & kExpensive) == 0 && !tails_.count(&node) && uses <= kFewUses;
  }

  // The number of elements that the group reads, without constants; for tables, the elements of the
  // rows that are looked up.
  int64_t ElementsRead() const {
    ValueSet read;
    int64_t elements = 0;
    for (const Node* node : group_) {
      for (const Value* operand : node->operands) {
        const bool is_inside = operand && operand->producer && group_.count(operand->producer);
        if (!operand || is_inside) continue;
        if (LooksUpRows(*node) && operand == node->operand(0))
          elements += std::min(Elements(node->result()), Elements(operand));
        else if (!IsConstant(operand) && read.insert(operand).second)
          elements += Elements(operand);
      }
    }
    return elements;
  }

  // Whether the kernel saves more than it costs: the operand is neither written nor read, but the
  // data that it is made from is read for every column of tiles.
  bool Pays() const {
    const std::optional<ProductShape> product = FindProductShape(matmul_);
    const int64_t made = Elements(matmul_.operand(0)), read = ElementsRead();
    if (!product || IsLong(*product)) return made >= kManyTimes * read;
    const int64_t tiles = CeilDiv(product->n, kTileColumns);
    const bool is_apt = product->k >= kFewestTerms && product->k <= kMostTerms;
    return is_apt && 2 * made >= kTwiceLeastTimes * read &&
           kColumnsPerMove * (2 * made - (tiles - 1) * read) >= product->n * made;
  }

  const Graph& graph_;
  const ReaderMap& readers_;
  const Node& matmul_;
  const NodeSet tails_;
  NodeSet group_;
  DenseMap<const Node*, double> uses_;  // by node of the group: uses of an element of its result
};

}  // namespace

NodeSet FindPrologue(const Graph& graph, const ReaderMap& readers, const Node& matmul) {
  return Prologue(graph, readers, matmul).Find();
}

Result<bool> FuseMatMulPrologue(Graph& graph, const PassOptions&, PassReport&) {
  std::vector<const Node*> matmuls;
  for (const auto& node : graph.nodes) {
    if (MayMakeOperand(*node)) matmuls.push_back(node.get());
  }
  bool changed = false;
  ReaderMap readers = Readers(graph);
  for (const Node* matmul : matmuls) {
    NodeSet group = FindPrologue(graph, readers, *matmul);
    if (group.empty()) continue;
    group.insert(matmul);
    AddTail(graph, readers, matmul->result()->type.shape, group);
    MakeRegion(graph, group, RegionClass::kMatMul);
    readers = Readers(graph);
    changed = true;
  }
  return changed;
}

}  // namespace fusec
