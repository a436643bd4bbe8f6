#include "passes/drop_dead_columns.h"

#include <algorithm>
#include <cstring>

#include "compiler/ir/op_def.h"
#include "passes/constant_linear.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

std::optional<int64_t> Extent(const Value* value, int64_t axis) {
  return value->type.shape[axis].AsConstant();
}

bool AllPartsFixed(const Node& concat, int64_t axis) {
  return std::all_of(concat.operands.begin(), concat.operands.end(),
                     [&](const Value* part) { return Extent(part, axis).has_value(); });
}

TensorData CutData(const TensorData& data, const Span& span) {
  std::vector<int64_t> dims = data.dims();
  size_t outer = 1, inner = DtypeBytes(data.dtype());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (static_cast<int64_t>(i) < span.axis) outer *= dims[i];
    if (static_cast<int64_t>(i) > span.axis) inner *= dims[i];
  }
  const size_t from_bytes = dims[span.axis] * inner;
  const size_t bytes = (span.high - span.low) * inner;
  dims[span.axis] = span.high - span.low;
  TensorData cut(data.dtype(), dims);
  for (size_t i = 0; i < outer && bytes > 0; ++i) {
    std::memcpy(cut.mutable_bytes() + i * bytes, data.bytes() + i * from_bytes + span.low * inner,
                bytes);
  }
  return cut;
}

Value* CutConstant(const Value* constant, const TensorData& data, const Span& span,
                   const std::string& name, Builder& builder) {
  Recipe recipe;
  Value* cut = recipe.Slice(recipe.Use(constant), span.axis, span.low, span.high);
  return AddConstant(builder, recipe.Finish(cut, CutData(data, span)), name);
}

class Cutter {
 public:
  Cutter(const Graph& graph, const ReaderMap& readers, const PassOptions& options)
      : graph_(graph), readers_(readers), options_(options) {}

  // Whether `value` is cheaper without some elements of `axis`.
  bool Pays(const Value* value, int64_t axis) const {
    const Node* node = value->producer;
    if (!node) return false;
    const int64_t rank = value->type.rank();
    if (node->kind == OpKind::kConcat)
      return node->Int("axis") == axis && AllPartsFixed(*node, axis);
    if (node->kind == OpKind::kGather) {
      const TensorData* table = Payload(node->operand(0));
      return table && table->dims().size() == 2 && node->Int("axis") == 0 && axis == rank - 1 &&
             HasOneReader(graph_, readers_, node->operand(0));
    }
    if (node->kind == OpKind::kMatMul) {
      return axis == rank - 1 && RightWeights(*node) && !IsKeptAdapter(*node, readers_, options_) &&
             HasOneReader(graph_, readers_, node->operand(1));
    }
    if (!IsElementwise(*node)) return false;
    return std::any_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
      const auto own = OperandAxis(operand, value, axis);
      return own && HasOneReader(graph_, readers_, operand) && Pays(operand, *own);
    });
  }

  // The elements of `value` that `span` names.
  Value* Cut(Value* value, const Span& span, Builder& builder) const {
    Node* node = value->producer;
    const std::string name = value->name + "_cut";
    if (const TensorData* data = Payload(value))
      return CutConstant(value, *data, span, name, builder);
    if (!Pays(value, span.axis)) return SlicedTo(span, value, builder);
    if (node->kind == OpKind::kConcat) return CutConcat(*node, span, builder);
    ValueList operands = node->operands;
    if (node->kind == OpKind::kGather) {
      operands[0] = Cut(operands[0], {1, span.low, span.high}, builder);
    } else if (node->kind == OpKind::kMatMul) {
      const bool transposed = node->Int("transpose_b") != 0;
      operands[1] = Cut(operands[1], {transposed ? 0 : 1, span.low, span.high}, builder);
    } else {
      for (Value*& operand : operands) {
        if (const auto own = OperandAxis(operand, value, span.axis))
          operand = CutOperand(operand, {*own, span.low, span.high}, builder);
      }
    }
    return builder.Make(node->kind, operands, node->attributes, name);
  }

 private:
  // Element i of the result is made of elements i of the operands, which broadcast.
  static bool IsElementwise(const Node& node) {
    return GetOpDef(node.kind).op_class == OpClass::kPointwise && !node.operands.empty() &&
           node.kind != OpKind::kOneHot;
  }

  // The axis of `operand` that lies along `axis` of `result`, if it does not broadcast there.
  static std::optional<int64_t> OperandAxis(const Value* operand, const Value* result,
                                            int64_t axis) {
    if (!operand) return std::nullopt;
    const int64_t own = axis - result->type.rank() + operand->type.rank();
    if (own < 0 || operand->type.shape[own] != result->type.shape[axis]) return std::nullopt;
    return own;
  }

  static Value* SlicedTo(const Span& span, Value* value, Builder& builder) {
    return Sliced(builder, value, span.axis, span.low, span.high, value->name + "_cut");
  }

  // An operand may have other readers; they keep the uncut value.
  Value* CutOperand(Value* operand, const Span& span, Builder& builder) const {
    const bool is_own = Payload(operand) || HasOneReader(graph_, readers_, operand);
    return is_own ? Cut(operand, span, builder) : SlicedTo(span, operand, builder);
  }

  Value* CutConcat(const Node& concat, const Span& span, Builder& builder) const {
    ValueList parts;
    int64_t offset = 0;
    for (Value* part : concat.operands) {
      const int64_t extent = *Extent(part, span.axis);
      const int64_t low = std::max(span.low - offset, int64_t{0});
      const int64_t high = std::min(span.high - offset, extent);
      offset += extent;
      if (low >= high) continue;
      const bool whole = low == 0 && high == extent;
      parts.push_back(whole ? part : CutOperand(part, {span.axis, low, high}, builder));
    }
    if (parts.size() == 1) return parts[0];
    return builder.Make(OpKind::kConcat, parts, concat.attributes, concat.result()->name + "_cut");
  }

  const Graph& graph_;
  const ReaderMap& readers_;
  const PassOptions& options_;
};

// If all readers of a value are slices along one axis: the span of elements that they read
// together.
std::optional<Span> SpanOfReaders(const Graph& graph, const ReaderMap& readers,
                                  const Value* value) {
  const auto found = readers.find(value);
  if (found == readers.end() || IsOutput(graph, value)) return std::nullopt;
  Span all;
  for (const Node* reader : found->second) {
    const auto span = reader->kind == OpKind::kSlice ? SpanOf(*reader) : std::nullopt;
    if (!span || span->axis < 0 || (all.axis >= 0 && all.axis != span->axis)) return std::nullopt;
    if (all.axis < 0) all = *span;
    all.low = std::min(all.low, span->low);
    all.high = std::max(all.high, span->high);
  }
  return all;
}

// Makes `slice` read `value` instead of its operand; `value` begins at element `low` of that
// operand along `axis`.
void ReadFrom(Graph& graph, Node& slice, Value* value, int64_t axis, int64_t low) {
  slice.operands[0] = value;
  auto starts = slice.Get<Exprs>("starts");
  starts[axis] = starts[axis] - low;
  slice.attributes["starts"] = starts;
  if (slice.result()->type != value->type || slice.Ints("steps")[axis] != 1) return;
  graph.ReplaceAllUses(slice.result(), value);
}

// If each slice of the concatenation lies within one part, makes it read that part.
bool ReadParts(Graph& graph, const ReaderMap& readers, const Node& concat) {
  const int64_t axis = concat.Int("axis");
  std::vector<std::pair<Value*, int64_t>> parts;  // by slice: its part, and where that begins
  for (const Node* slice : readers.at(concat.result())) {
    const Span span = *SpanOf(*slice);
    int64_t offset = 0;
    for (Value* part : concat.operands) {
      const int64_t extent = *Extent(part, axis);
      if (span.low >= offset && span.high <= offset + extent) parts.emplace_back(part, offset);
      offset += extent;
    }
  }
  const auto& slices = readers.at(concat.result());
  if (parts.size() != slices.size()) return false;
  for (size_t i = 0; i < slices.size(); ++i)
    ReadFrom(graph, *slices[i], parts[i].first, axis, parts[i].second);
  return true;
}

bool DropBehind(Graph& graph, const ReaderMap& readers, const PassOptions& options, size_t place) {
  const Node& node = *graph.nodes[place];
  if (node.results.size() != 1 || node.kind == OpKind::kConstant) return false;
  Value* value = node.result();
  const auto span = SpanOfReaders(graph, readers, value);
  if (!span || !Extent(value, span->axis)) return false;
  const Cutter cutter(graph, readers, options);
  if (!cutter.Pays(value, span->axis)) return false;
  if (node.kind == OpKind::kConcat && ReadParts(graph, readers, node)) return true;
  if (span->low == 0 && span->high == *Extent(value, span->axis)) return false;
  Builder builder(graph, place);
  builder.set_provenance(node.provenance);
  Value* cut = cutter.Cut(value, *span, builder);
  for (Node* slice : readers.at(value)) ReadFrom(graph, *slice, cut, span->axis, span->low);
  return true;
}

}  // namespace

Result<bool> DropDeadColumns(Graph& graph, const PassOptions& options, PassReport&) {
  bool changed = false;
  ReaderMap readers = Readers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!DropBehind(graph, readers, options, i)) continue;
    changed = true;
    RemoveDeadNodes(graph);
    readers = Readers(graph);
    i = static_cast<size_t>(-1);  // the nodes moved: look again from the first
  }
  return changed;
}

}  // namespace fusec
