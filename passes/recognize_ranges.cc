#include "passes/recognize_ranges.h"

#include <algorithm>
#include <optional>

#include "compiler/region/op_pattern.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

bool ComparesOrder(const Node& node) {
  return node.kind == OpKind::kLess || node.kind == OpKind::kLessOrEqual ||
         node.kind == OpKind::kGreater || node.kind == OpKind::kGreaterOrEqual;
}

// The first of numbers that count along one axis; nullopt for others.
std::optional<int64_t> StartAlongAxis(const TensorData& data) {
  const auto& dims = data.dims();
  const bool is_line = std::find(dims.begin(), dims.end(), data.element_count()) != dims.end();
  return is_line ? StartOfCount(data) : std::nullopt;
}

bool IsRange(const Value* value) {
  const Node* node = value->producer;
  while (node && IsView(*node)) node = node->operand(0)->producer;
  return node && node->kind == OpKind::kRange;
}

// Whether only comparisons with data of the run read the value, or views for these.
bool IsOnlyCompared(const ReaderMap& readers, const Value* value) {
  const auto found = readers.find(value);
  return found != readers.end() &&
         std::all_of(found->second.begin(), found->second.end(), [&](const Node* reader) {
           if (IsView(*reader)) return IsOnlyCompared(readers, reader->result());
           return ComparesOrder(*reader) &&
                  std::none_of(
                      reader->operands.begin(), reader->operands.end(), [&](const Value* operand) {
                        return operand != value && (IsConstant(operand) || IsRange(operand));
                      });
         });
}

}  // namespace

bool IsRangeToCompare(const Graph& graph, const Value* value) {
  return IsRange(value) && IsOnlyCompared(Readers(graph), value);
}

Result<bool> RecognizeRanges(Graph& graph, const PassOptions&, PassReport&) {
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!ComparesOrder(*graph.nodes[i])) continue;
    for (int side = 0; side < 2; ++side) {
      Node& comparison = *graph.nodes[i];
      const Value* constant = comparison.operand(side);
      const TensorData* data = Payload(constant);
      const Value* other = comparison.operand(1 - side);
      const auto start =
          data && !IsConstant(other) && !IsRange(other) ? StartAlongAxis(*data) : std::nullopt;
      if (!start) continue;
      Builder builder(graph, i);
      builder.set_provenance(comparison.provenance);
      Value* count = builder.Make(OpKind::kRange, {},
                                  {{"start", *start},
                                   {"delta", int64_t{1}},
                                   {"length", Exprs{data->element_count()}},
                                   {"dtype", data->dtype()}},
                                  constant->name);
      comparison.operands[side] = ReshapeTo(builder, count, constant->type.shape, constant->name);
      i = builder.insert_at();
      changed = true;
    }
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace fusec
