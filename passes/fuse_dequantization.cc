#include "passes/fuse_dequantization.h"

#include <algorithm>

#include "compiler/region/product.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// The number of the operand of a region that is the right matrix of its only product, perhaps
// reshaped.
std::optional<size_t> RightOperandOf(const Node& region) {
  if (RegionClassOf(region) != RegionClass::kMatMul || region.Has(kDense)) return std::nullopt;
  const Node* product = nullptr;
  for (const auto& node : region.body->nodes) {
    if (node->kind != OpKind::kMatMul) continue;
    if (product != nullptr) return std::nullopt;
    product = node.get();
  }
  if (product == nullptr || !FindProductShape(*product)) return std::nullopt;
  const ReaderMap readers = Readers(*region.body);
  const Value* right = product->operand(1);
  const auto is_only_read_there = [&] {
    return HasOneReader(*region.body, readers, right) && right != product->operand(0);
  };
  while (is_only_read_there() && ProducerOf(right, OpKind::kReshape))
    right = right->producer->operand(0);
  if (right->producer != nullptr || !is_only_read_there()) return std::nullopt;
  return static_cast<size_t>(right->result_index);
}

// The region that dequantizes `weights` from packed constants, or null.
const Node* DequantizationOf(const Value* weights) {
  const Node* region = weights->producer;
  if (region == nullptr || region->kind != OpKind::kRegion ||
      RegionClassOf(*region) != RegionClass::kPointwise)
    return nullptr;
  const bool of_constants =
      std::all_of(region->operands.begin(), region->operands.end(), IsConstant);
  const Value* made = region->body->outputs[static_cast<size_t>(weights->result_index)];
  return of_constants && IsMadeOfCodes(made) ? region : nullptr;
}

// Copies the nodes behind result number `result` of `from` to the front of the body of `to`, whose
// operands get those of `from`. Returns the copy of the result.
Value* CopyInto(Node& to, const Node& from, int result) {
  const NodeSet needed = NodesBehind(from.body->outputs[result]);
  DenseMap<const Value*, Value*> copies;
  size_t place = 0;
  for (const auto& node : from.body->nodes) {
    if (needed.count(node.get()) == 0) continue;
    std::unique_ptr<Node> copy = CopyNode(*node, [&](Value* operand) {
      Value*& inside = copies[operand];
      if (inside == nullptr) {  // an operand of the region
        to.operands.push_back(from.operands[static_cast<size_t>(operand->result_index)]);
        inside = to.body->AddInput(operand->name, operand->type);
      }
      return inside;
    });
    for (size_t i = 0; i < node->results.size(); ++i) {
      copy->results[i]->name = to.body->UniqueName(node->results[i]->name);
      copies[node->results[i].get()] = copy->results[i].get();
    }
    to.body->nodes.insert(to.body->nodes.begin() + static_cast<int64_t>(place++), std::move(copy));
  }
  return copies.at(from.body->outputs[result]);
}

// Moves the regions that dequantize weights in front of their first readers, so that few
// dequantized matrices are in memory at once.
void MoveToReaders(Graph& graph, const NodeSet& dequantizations) {
  DenseMap<const Node*, std::unique_ptr<Node>> waiting;
  std::vector<std::unique_ptr<Node>> ordered;
  for (auto& node : graph.nodes) {
    if (dequantizations.count(node.get()) != 0) {
      const Node* key = node.get();
      waiting[key] = std::move(node);
      continue;
    }
    for (const Value* operand : node->operands) {
      const auto found = operand ? waiting.find(operand->producer) : waiting.end();
      if (found == waiting.end() || found->second == nullptr) continue;
      ordered.push_back(std::move(found->second));
    }
    ordered.push_back(std::move(node));
  }
  graph.nodes = std::move(ordered);
}

}  // namespace

Result<bool> FuseDequantization(Graph& graph, const PassOptions&, PassReport&) {
  NodeSet dequantizations;
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kRegion) continue;
    const std::optional<size_t> dense = RightOperandOf(*node);
    if (!dense) continue;
    const Value* weights = node->operands[*dense];
    const Node* dequantization = DequantizationOf(weights);
    if (dequantization == nullptr) continue;
    Value* made = CopyInto(*node, *dequantization, weights->result_index);
    node->body->ReplaceAllUses(node->body->inputs[*dense].get(), made);
    node->attributes[kDense] = static_cast<int64_t>(*dense);
    dequantizations.insert(dequantization);
  }
  MoveToReaders(graph, dequantizations);
  return !dequantizations.empty();
}

}  // namespace fusec
