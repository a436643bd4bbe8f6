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

// Products with more terms than this and few columns are better split over thread blocks (split-K),
// which the library does.
constexpr int64_t kTermsThatLibrarySplits = 2048;
constexpr int64_t kColumnsThatFillTheGpu = 256;
// The most terms of a product for which a generated kernel with an epilogue beats the library with
// a separate kernel. That kernel writes and reads each element of the product: for f16 and bf16 on
// an H200 this takes 0.94 us per million elements (4 bytes at 4.25 TB/s) and a launch of 1 us,
// while the library takes 1.7 us per million for so many terms (2 operations each at 600 TFLOP/s).
// A kernel that computes both is ahead if it reaches 64 % of the library's speed. With TF32 both
// take twice as long. A limit of 1024 terms made models slower
// (2026-11-27-h200-tiles-side-by-side.txt).
constexpr int64_t kTermsThatALoopPaysFor = 512;
// The same limit if the epilogue looks up rows: these would be written to memory by the look-up
// before the other kernel reads them.
constexpr int64_t kTermsThatRowsPayFor = 1024;

// Whether the results of the group are stored in any case, since the caller, products or regions
// read them, so that the last ops would otherwise be a kernel of their own. Another reader could
// compute and store them instead, unless it reads only a slice.
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

// Whether a reduction is the only reader of `node` and can compute it from a value that is stored
// anyway. Storing the node's result as well would only cost time.
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

// Whether `node` only casts a result of the group to a wider type for loops and reductions outside.
// These can do the cast themselves, so that the wider numbers need not be stored.
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

// Adds gathers of rows and expands that only the tail reads. An epilogue reads them through an
// index; otherwise a kernel of their own would write as much as the product.
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

// Adds reshapes that only the tail reads; they move no bytes.
void AddReshapes(const Graph& graph, const ReaderMap& readers, ShapeRef shape, NodeSet& group) {
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kReshape || group.count(node.get())) continue;
    const Value* view = node->result();
    if (ShapeRef(view->type.shape) != shape || !HasOneReader(graph, readers, view) ||
        !group.count(readers.at(view)[0]))
      continue;
    group.insert(node.get());
    if (!IsConvex(graph, group)) group.erase(node.get());
  }
}

// Adds the product of slots (slot_matmul) that the tail adds to the product; the kernel computes it
// while the sums are in registers. Returns whether there is one.
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

// The product with its epilogue, if a generated kernel computes them faster than the library;
// otherwise nullopt. `least`: the nodes that every library computes in one call; `most`: those that
// cuBLASLt does.
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
  const bool has_more_ops = group.size() > most.size();
  AddReshapes(graph, readers, shape, group);
  const bool is_split = IsSplit(FactorDtype(matmul), options.matmul_precision);
  const bool is_in_library = FactorDtype(matmul) == matmul.result()->type.dtype;
  const bool is_better =
      !is_in_library || (is_split ? IsAheadOfLibrary(*own)
                                  : (own->k <= kTermsThatALoopPaysFor || reads_rows) &&
                                        has_more_ops && EndsInAKernel(graph, readers, group));
  return is_better || adds_slots ? std::optional(group) : std::nullopt;
}

// Reports why the group begins and ends where it does.
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

bool IsAheadOfLibrary(const ProductShape& product) {
  return product.k <= kTermsThatLibrarySplits ||
         product.n * product.matrices >= kColumnsThatFillTheGpu;
}

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
