#include "passes/fuse_matmul_tail.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/op_def.h"
#include "compiler/region/product.h"
#include "compiler/region/slot_product.h"
#include "passes/fuse_matmul_epilogue.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// Sums of more terms, and of fewer columns, are better split among blocks, which the library does.
constexpr int64_t kTermsThatLibrarySplits = 2048;
constexpr int64_t kColumnsThatFillTheGpu = 256;
// What the library leaves to another kernel is written and read as often as the product has
// elements. Of halves on an H200 that takes 0.94 us a million (4 bytes at 4.25 TB/s) and a launch
// of 1 us, and the library 1.7 us of so many terms (2 operations each at 600 TFLOP/s): a kernel of
// ours that makes both is ahead if it has 64 % of the library's speed. Of TF32 both take twice as
// long. Up to 1024 terms, models lose (2026-11-27-h200-tiles-side-by-side.txt).
constexpr int64_t kTermsThatALoopPaysFor = 512;
// Rows that the library would read from memory are written, too, with the ids' look-ups in between.
constexpr int64_t kTermsThatRowsPayFor = 1024;

// Whether kernels of ours are no slower than the library's at any size: those of floats as such
// are.
bool IsAheadOfLibrary(const ProductShape& product) {
  return product.k <= kTermsThatLibrarySplits ||
         product.n * product.matrices >= kColumnsThatFillTheGpu;
}

// Whether what the group gives away is read from memory in any case, by the caller, by products or
// by regions, so that its last ops would be a kernel without it. Another reader of the same might
// make it instead and store it for all, but not one that takes a slice of it.
bool EndsInAKernel(const Graph& graph, const ReaderMap& readers, const NodeSet& group) {
  return std::all_of(group.begin(), group.end(), [&](const Node* node) {
    const auto found = readers.find(node->result());
    if (found == readers.end()) return true;
    bool is_read = IsOutput(graph, node->result()), is_sliced = false;
    for (const Node* reader : found->second) {
      if (group.count(reader)) continue;
      if (reader->kind == OpKind::kMatMul || reader->kind == OpKind::kRegion)
        is_read = true;
      else if (reader->kind == OpKind::kSlice)
        is_sliced = true;
      else if (!IsPointwise(*reader, node->result()->type.shape))
        return false;
    }
    return is_read || !is_sliced;
  });
}

// Whether a reduction reads `node`, and nobody else, and can make it itself from a value that is
// stored anyway: then storing the node's result as well only costs.
bool IsBetterMadeByItsReader(const Graph& graph, const ReaderMap& readers, const NodeSet& group,
                             const Node& node) {
  const OpDef& def = GetOpDef(node.kind);
  if (def.op_class != OpClass::kPointwise || (def.algebra & kExpensive) != 0 ||
      IsOutput(graph, node.result()))
    return false;
  const auto found = readers.find(node.result());
  if (found == readers.end() || found->second.size() != 1 || !IsReduction(*found->second[0]))
    return false;
  return std::all_of(node.operands.begin(), node.operands.end(), [&](const Value* operand) {
    return operand == node.operand(0) && operand->producer && group.count(operand->producer) &&
           ReadersOf(graph, readers, group, operand).outside;
  });
}

// Whether `node` only widens what the group gives to loops and reductions outside, which widen it
// as well: then the wider numbers need not be stored.
bool OnlyWidens(const Graph& graph, const ReaderMap& readers, const NodeSet& group,
                const Node& node) {
  if (node.kind != OpKind::kCast || IsOutput(graph, node.result())) return false;
  const Dtype from = node.operand(0)->type.dtype, to = node.result()->type.dtype;
  const bool widens = IsFloat(from) && IsFloat(to) && DtypeBytes(to) > DtypeBytes(from);
  const auto found = readers.find(node.result());
  if (!widens || found == readers.end() || !group.count(node.operand(0)->producer)) return false;
  return std::all_of(found->second.begin(), found->second.end(), [&](const Node* reader) {
    return !group.count(reader) &&
           (IsReduction(*reader) || GetOpDef(reader->kind).op_class == OpClass::kPointwise);
  });
}

// Adds what gives the tail rows by ids, or one row again and again, and nothing else reads: an
// epilogue reads it through an index, where it would be a kernel that writes as much as the
// product.
void AddRowReads(const Graph& graph, const ReaderMap& readers, ShapeRef shape, NodeSet& group) {
  for (const auto& node : graph.nodes) {
    const bool is_gather = node->kind == OpKind::kGather && node->Int("axis") == 0;
    if (!is_gather && node->kind != OpKind::kExpand) continue;
    const Value* rows = node->result();
    if (ShapeRef(rows->type.shape) != shape || !HasOneReader(graph, readers, rows)) continue;
    const Node* reader = readers.at(rows)[0];
    if (!group.count(reader) || !IsPointwise(*reader, shape)) continue;
    group.insert(node.get());
    if (!IsConvex(graph, group)) group.erase(node.get());
  }
}

// Adds the product of slots that the tail adds to the product: it is made while the sums are in
// registers. Whether there is one.
bool AddSlotAddend(const Graph& graph, const ReaderMap& readers, const Node& matmul,
                   NodeSet& group) {
  if (!HasOneReader(graph, readers, matmul.result())) return false;
  const Node* sum = readers.at(matmul.result())[0];
  const Node* addend = group.count(sum) ? SlotAddendOf(*sum, matmul) : nullptr;
  if (addend == nullptr || !HasOneReader(graph, readers, addend->result())) return false;
  group.insert(addend);
  if (!IsConvex(graph, group)) group.erase(addend);
  return group.count(addend) != 0;
}

// The product with what stands behind it where a kernel of ours had better make it than the
// library, which in one call makes `least` or, of a GPU, `most`.
std::optional<NodeSet> OwnKernel(const Graph& graph, const ReaderMap& readers,
                                 const PassOptions& options, const Node& matmul,
                                 const NodeSet& least, const NodeSet& most) {
  const std::optional<ProductShape> own = FindProductShape(matmul);
  if (!own) return std::nullopt;
  NodeSet group = least;
  const ShapeRef shape = matmul.result()->type.shape;
  AddTail(graph, readers, shape, group);
  const bool adds_slots = AddSlotAddend(graph, readers, matmul, group);
  const size_t without_rows = group.size();
  AddRowReads(graph, readers, shape, group);
  const bool reads_rows = group.size() > without_rows && own->k <= kTermsThatRowsPayFor;
  const bool is_split = IsSplit(matmul.result()->type.dtype, options.matmul_precision);
  const bool is_better = is_split ? IsAheadOfLibrary(*own)
                                  : (own->k <= kTermsThatALoopPaysFor || reads_rows) &&
                                        group.size() > most.size() &&
                                        EndsInAKernel(graph, readers, group);
  return is_better || adds_slots ? std::optional(group) : std::nullopt;
}

// Says why the group begins and ends where it does.
void ExplainEnds(const Graph& graph, const ReaderMap& readers, const NodeSet& group,
                 PassReport& report) {
  for (const auto& node : graph.nodes) {
    const bool inside = group.count(node.get()) != 0;
    if (node->kind == OpKind::kConstant) continue;
    for (const auto& result : node->results) {
      const auto found = readers.find(result.get());
      if (found == readers.end()) continue;
      for (const Node* reader : found->second) {
        if (inside && !group.count(reader)) {
          report.Refuse(result.get(), *reader,
                        std::string(GetOpDef(reader->kind).text) +
                            " is not a pointwise op on the elements of the product",
                        "a kernel that keeps whole rows of the product");
        } else if (!inside && group.count(reader)) {
          report.Refuse(result.get(), *reader,
                        "the kernel of a product reads its operands from memory",
                        "a kernel that makes them while it fills its tiles");
        }
      }
    }
  }
}

}  // namespace

void AddTail(const Graph& graph, const ReaderMap& readers, ShapeRef shape, NodeSet& group) {
  for (const auto& node : graph.nodes) {
    const bool is_pointwise = IsPointwise(*node, shape);
    if (!is_pointwise && node->kind != OpKind::kReshape) continue;
    const auto comes_from = [&](const Value* operand) {
      return operand && operand->producer && group.count(operand->producer) &&
             ShapeRef(operand->type.shape) == shape;
    };
    if (!std::any_of(node->operands.begin(), node->operands.end(), comes_from)) continue;
    if (!is_pointwise &&
        (readers.at(node->operand(0)).size() > 1 || IsOutput(graph, node->operand(0))))
      continue;
    group.insert(node.get());
    if (!IsConvex(graph, group)) group.erase(node.get());
  }
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node* node = graph.nodes[i].get();
    if (group.count(node) && (IsBetterMadeByItsReader(graph, readers, group, *node) ||
                              OnlyWidens(graph, readers, group, *node)))
      group.erase(node);
  }
}

Result<bool> FuseMatMulTail(Graph& graph, const PassOptions& options, PassReport& report) {
  std::vector<const Node*> matmuls;
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kMatMul) matmuls.push_back(node.get());
  }
  bool changed = false;
  for (const Node* matmul : matmuls) {
    const auto readers = Readers(graph);
    const LibraryProduct least = FindLibraryProduct(graph, readers, *matmul);
    const LibraryProduct most = FindLibraryProduct(graph, readers, *matmul, /*takes_addend=*/true);
    const std::optional<NodeSet> own =
        OwnKernel(graph, readers, options, *matmul, least.nodes, most.nodes);
    const NodeSet& group = own ? *own : most.nodes;
    if (group == least.nodes) continue;
    if (own)
      ExplainEnds(graph, readers, group, report);
    else
      ExplainLibraryProduct(graph, readers, most, report);
    MakeRegion(graph, group, RegionClass::kMatMul);
    changed = true;
  }
  return changed;
}

}  // namespace fusec
