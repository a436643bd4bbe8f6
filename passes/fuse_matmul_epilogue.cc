#include "passes/fuse_matmul_epilogue.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/region/product.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// The only reader of `value`; null if there are several, or if the value is an output.
Node* OnlyReader(const Graph& graph, const ReaderMap& readers, const Value* value) {
  return HasOneReader(graph, readers, value) ? readers.at(value)[0] : nullptr;
}

// Whether `add` adds a bias to `product`: its other operand has one element per column.
bool AddsBias(const Node& add, const Value* product) {
  if (add.kind != OpKind::kAdd || !IsFloat(product->type.dtype)) return false;
  const Value* other = add.operand(0) == product ? add.operand(1) : add.operand(0);
  if (other == product || add.result()->type != product->type || other->type.rank() == 0)
    return false;
  return other->type.shape.back() == product->type.shape.back() &&
         other->type.ElementCount() == product->type.shape.back();
}

// Whether `add` adds a separate bias to each matrix of a product of a few matrices. Generated
// kernels compute all matrices in one launch, cuBLASLt one by one.
bool AddsBiasOfEach(const Node& add, const Node& matmul) {
  const Value* product = matmul.result();
  const Shape& weights = matmul.operand(1)->type.shape;
  if (add.kind != OpKind::kAdd || product->type.dtype == Dtype::kF64 ||
      matmul.Int("transpose_a") != 0 || matmul.Int("transpose_b") != 1 ||
      weights.size() != product->type.shape.size() ||
      !std::equal(weights.begin(), weights.end() - 2, product->type.shape.begin()))
    return false;
  const TensorType& other = (add.operand(0) == product ? add.operand(1) : add.operand(0))->type;
  Shape rows = product->type.shape;
  rows[rows.size() - 2] = 1;
  const int64_t matrices = Product(Shape(rows.begin(), rows.end() - 2)).AsConstant().value_or(0);
  return add.result()->type == product->type && other.shape == rows && matrices > 1 &&
         matrices <= kMostMatrices;
}

// Whether `add` adds another tensor of the product's shape.
bool AddsTensor(const Node& add, const Value* product) {
  return add.kind == OpKind::kAdd && IsFloat(product->type.dtype) &&
         add.operand(0) != add.operand(1) && add.operand(0)->type == product->type &&
         add.operand(1)->type == product->type;
}

// Whether the libraries can apply the activation to a product while they store it.
bool IsLibraryActivation(const Node& node) {
  if (node.kind == OpKind::kRelu) return true;
  return node.kind == OpKind::kGelu && node.Get<std::string>("approximate") == "tanh" &&
         node.result()->type.dtype != Dtype::kF64;
}

}  // namespace

LibraryProduct FindLibraryProduct(const Graph& graph, const ReaderMap& readers, const Node& matmul,
                                  bool takes_addend) {
  LibraryProduct product{{&matmul}, matmul.result()};
  for (const Value* operand : matmul.operands) {
    while (operand->producer && operand->producer->kind == OpKind::kReshape &&
           OnlyReader(graph, readers, operand)) {
      product.nodes.insert(operand->producer);
      operand = operand->producer->operand(0);
    }
  }
  Node* next = OnlyReader(graph, readers, product.tail);
  const auto take = [&] {
    product.nodes.insert(next);
    product.tail = next->result();
    next = OnlyReader(graph, readers, product.tail);
  };
  const bool adds_each = takes_addend && next && AddsBiasOfEach(*next, matmul);
  if (next && (adds_each || AddsBias(*next, product.tail))) take();
  if (takes_addend && !adds_each && next && AddsTensor(*next, product.tail)) {
    product.nodes.insert(next);
    const bool convex = IsConvex(graph, product.nodes);
    product.nodes.erase(next);
    if (convex) take();
  }
  if (next && IsLibraryActivation(*next)) take();
  while (next && next->kind == OpKind::kReshape) take();
  if (!IsConvex(graph, product.nodes)) product = {{&matmul}, matmul.result()};
  return product;
}

void ExplainLibraryProduct(const Graph& graph, const ReaderMap& readers,
                           const LibraryProduct& product, PassReport& report) {
  const auto& [group, tail] = product;
  const std::string needed = "a matmul kernel with this op in it";
  if (const auto found = readers.find(tail); found != readers.end()) {
    const size_t count = found->second.size() + (IsOutput(graph, tail) ? 1 : 0);
    for (const Node* reader : found->second) {
      if (count > 1) {
        report.Refuse(
            tail, *reader,
            "the product has " + std::to_string(count) + " readers, so its result goes to memory",
            "a matmul kernel with all of them in it");
      } else {
        report.Refuse(tail, *reader,
                      std::string(GetOpDef(reader->kind).text) +
                          " is not an epilogue of the matrix libraries (a bias per "
                          "column, then relu or tanh-gelu)",
                      needed);
      }
    }
  }
  for (const auto& node : graph.nodes) {
    if (group.count(node.get())) continue;
    for (const auto& result : node->results) {
      const auto found = readers.find(result.get());
      if (found == readers.end() || node->kind == OpKind::kConstant) continue;
      for (const Node* reader : found->second) {
        if (group.count(reader))
          report.Refuse(result.get(), *reader, "a matrix product reads its operands from memory",
                        needed);
      }
    }
  }
}

Result<bool> FuseMatMulEpilogue(Graph& graph, const PassOptions&, PassReport& report) {
  std::vector<const Node*> matmuls;
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kMatMul && IsFloat(node->result()->type.dtype))
      matmuls.push_back(node.get());
  }
  for (const Node* matmul : matmuls) {
    const auto readers = Readers(graph);
    const LibraryProduct product = FindLibraryProduct(graph, readers, *matmul);
    ExplainLibraryProduct(graph, readers, product, report);
    MakeRegion(graph, product.nodes, RegionClass::kMatMul);
  }
  return !matmuls.empty();
}

}  // namespace fusec
