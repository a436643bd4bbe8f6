#include "passes/fold_constants.h"

#include <algorithm>

#include "compiler/ir/host_table.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/symbolic_contents.h"
#include "compiler/reference/interpreter.h"
#include "passes/fold_large.h"
#include "passes/graph_edit.h"
#include "passes/recipe.h"
#include "passes/recognize_ranges.h"

namespace fusec {

namespace {

constexpr int64_t kSmallResult = 1024;  // elements that may always be stored

bool CanFold(const Node& node) {
  const OpClass op_class = GetOpDef(node.kind).op_class;
  if (op_class == OpClass::kConstant || op_class == OpClass::kRegion) return false;
  int64_t operand_elements = 0;
  for (const Value* operand : node.operands) {
    if (!operand) continue;
    const TensorData* data = StoredData(operand);
    if (data == nullptr) return false;
    operand_elements += data->element_count();
  }
  for (const auto& result : node.results) {
    const auto elements = result->type.ElementCount().AsConstant();
    if (!elements || *elements > std::max(operand_elements, kSmallResult)) return false;
  }
  // A node whose result depends on a symbol (in a shape, a slice's start or a value) is left to the
  // run.
  for (const auto& result : node.results) {
    if (!StaticShape(result->type.shape)) return false;
  }
  for (const auto& [name, attribute] : node.attributes) {
    const auto* dims = std::get_if<Exprs>(&attribute);
    if (dims && !StaticShape(*dims)) return false;
  }
  return true;
}

// The elements of an integer tensor that is computed from sizes, if they depend on no symbol.
std::optional<TensorData> KnownSizes(const Node& node, const Ranges& ranges) {
  const Value& value = *node.results[0];
  const OpClass op_class = GetOpDef(node.kind).op_class;
  if (op_class == OpClass::kConstant || node.results.size() != 1 || IsFloat(value.type.dtype)) {
    return std::nullopt;
  }
  const auto contents = SymbolicContents(&value, ranges);
  if (!contents) return std::nullopt;
  TensorData data(value.type.dtype, *StaticShape(value.type.shape));
  for (size_t i = 0; i < contents->size(); ++i) {
    const std::optional<int64_t> number = (*contents)[i].AsConstant();
    if (!number) return std::nullopt;
    data.SetInt(i, *number);
  }
  return data;
}

// The results of a node whose operands are constants; empty if the node is better left in the
// graph.
Result<std::vector<TensorData>> ValuesOf(const Node& node) {
  std::vector<TensorData> values;
  if (std::optional<TensorData> view = FoldView(node)) {
    values.push_back(*std::move(view));
    return values;
  }
  if (IsPiecewise(node) || !FitsInterpreter(node)) {
    FUSEC_ASSIGN(std::optional<TensorData> value, FoldLarge(node));
    if (value) values.push_back(*std::move(value));
    return values;
  }
  std::vector<ReferenceTensor> inputs;
  for (const Value* operand : node.operands) {
    if (operand) inputs.push_back(ReferenceTensor::FromData(operand->producer->constant));
  }
  FUSEC_ASSIGN(const auto tensors, InterpretNode(node, inputs));
  for (const ReferenceTensor& tensor : tensors) values.push_back(tensor.ToData());
  return values;
}

MadeConstant Folded(const Node& node, int result, TensorData data) {
  Recipe recipe;
  Value* copied = recipe.Copy(node)->result(result);
  return recipe.Finish(copied, std::move(data));
}

// The constants that the value of `node` depends on, directly or through other nodes.
void CollectConstants(const Node& node, NodeSet& seen, std::vector<const Value*>& constants) {
  for (const Value* operand : node.operands) {
    if (!operand || !operand->producer || !seen.insert(operand->producer).second) continue;
    if (IsConstant(operand))
      constants.push_back(operand);
    else
      CollectConstants(*operand->producer, seen, constants);
  }
}

// A new constant for sizes that are known; its derivation names the constants that they were
// computed from.
MadeConstant Known(const Node& node, TensorData data) {
  NodeSet seen;
  std::vector<const Value*> constants;
  CollectConstants(node, seen, constants);
  return Frozen(std::move(data), constants);
}

}  // namespace

Result<bool> FoldConstants(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  const Ranges ranges = graph.SymbolRanges();
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = *graph.nodes[i];
    std::vector<MadeConstant> values;
    if (node.results.size() == 1 && IsRangeToCompare(graph, node.result())) continue;
    if (CanFold(node)) {
      FUSEC_ASSIGN(std::vector<TensorData> results, ValuesOf(node));
      for (size_t r = 0; r < results.size(); ++r)
        values.push_back(Folded(node, static_cast<int>(r), std::move(results[r])));
    } else if (std::optional<TensorData> sizes = KnownSizes(node, ranges)) {
      values.push_back(Known(node, *std::move(sizes)));
    }
    if (values.empty()) continue;
    Builder builder(graph, i);
    builder.set_provenance(node.provenance);
    const bool is_updatable = std::any_of(node.operands.begin(), node.operands.end(), IsUpdatable);
    for (size_t r = 0; r < values.size(); ++r) {
      Value* constant = AddConstant(builder, std::move(values[r]), node.results[r]->name);
      graph.ReplaceAllUses(node.results[r].get(), constant);
      std::swap(constant->name, node.results[r]->name);  // keeps the model's name
      if (is_updatable) constant->producer->attributes[kUpdatable] = constant->name;
      if (node.kind == OpKind::kIdentity && IsHostTable(node.operand(0)))
        constant->producer->attributes[kHostTable] =
            node.operand(0)->producer->attributes.at(kHostTable);
    }
    i = builder.insert_at();  // the folded node itself, now unread
    changed = true;
    if (FitsInterpreter(node)) continue;
    RemoveDeadNodes(graph);  // at once: big operands are not kept beside what replaced them
    i = static_cast<size_t>(-1);
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace fusec
