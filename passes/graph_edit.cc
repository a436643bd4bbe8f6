#include "passes/graph_edit.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/support/check.h"

namespace fusec {

const std::string& ModelName(const Value& constant,
                             const std::map<std::string, std::string>& names) {
  const auto named = names.find(constant.name);
  return named == names.end() ? constant.name : named->second;
}

ReaderMap Readers(const Graph& graph) {
  ReaderMap readers;
  for (const auto& node : graph.nodes) {
    for (const Value* operand : node->operands) {
      if (!operand) continue;
      auto& list = readers[operand];
      if (list.empty() || list.back() != node.get()) list.push_back(node.get());
    }
  }
  return readers;
}

Node* ProducerOf(const Value* value, OpKind kind) {
  return value && value->producer && value->producer->kind == kind ? value->producer : nullptr;
}

bool HasOneReader(const Graph& graph, const ReaderMap& readers, const Value* value) {
  const auto found = readers.find(value);
  return found != readers.end() && found->second.size() == 1 && !IsOutput(graph, value);
}

std::optional<double> ScalarConstant(const Value* value) {
  const TensorData* data = Payload(value);
  if (data == nullptr || data->element_count() != 1) return std::nullopt;
  return data->GetDouble(0);
}

std::optional<int64_t> StartOfCount(const TensorData& data) {
  const bool is_integer = data.dtype() == Dtype::kI64 || data.dtype() == Dtype::kI32;
  if (!is_integer || data.element_count() < 2) return std::nullopt;
  for (int64_t i = 1; i < data.element_count(); ++i) {
    if (data.GetInt(i) - i != data.GetInt(0)) return std::nullopt;
  }
  return data.GetInt(0);
}

bool IsReduction(const Node& node) { return GetOpDef(node.kind).op_class == OpClass::kReduction; }

bool IsPointwise(const Node& node, ShapeRef shape) {
  return GetOpDef(node.kind).op_class == OpClass::kPointwise && node.result()->type.shape == shape;
}

bool IsCheapByElement(const Node& node) {
  const OpDef& op = GetOpDef(node.kind);
  const bool is_place = op.op_class == OpClass::kView ||
                        (op.op_class == OpClass::kGather && (op.algebra & kFolds) == 0);
  return is_place || (op.op_class == OpClass::kPointwise && (op.algebra & kExpensive) == 0);
}

bool IsOutput(const Graph& graph, const Value* value) {
  return std::find(graph.outputs.begin(), graph.outputs.end(), value) != graph.outputs.end();
}

int64_t ElementsForOnes(const Graph& graph, const Value* value) {
  std::map<std::string, int64_t> ones;
  for (const DimSymbol& symbol : graph.symbols) ones[symbol.name] = 1;
  return value->type.ElementCount().Evaluate(ones).value_or(0);
}

GroupReaders ReadersOf(const Graph& graph, const ReaderMap& readers, const NodeSet& group,
                       const Value* value) {
  GroupReaders result;
  result.outside = IsOutput(graph, value);
  if (auto found = readers.find(value); found != readers.end()) {
    for (const Node* reader : found->second)
      (group.count(reader) != 0 ? result.inside : result.outside) = true;
  }
  return result;
}

GroupReaders ReadersOf(const Graph& graph, const ReaderMap& readers, const NodeSet& group,
                       const Node& node) {
  GroupReaders all;
  for (const auto& result : node.results) {
    const GroupReaders one = ReadersOf(graph, readers, group, result.get());
    all.inside |= one.inside;
    all.outside |= one.outside;
  }
  return all;
}

void Refuse(PassReport& report, const ReaderMap& readers, const NodeSet& group, const Node& node,
            const std::string& reason, const std::string& needed) {
  for (const Value* operand : node.operands) {
    if (operand && operand->producer && group.count(operand->producer))
      report.Refuse(operand, node, reason, needed);
  }
  for (const auto& result : node.results) {
    const auto found = readers.find(result.get());
    if (found == readers.end()) continue;
    for (const Node* reader : found->second) {
      if (group.count(reader)) report.Refuse(result.get(), *reader, reason, needed);
    }
  }
}

Value* WithZeros(Builder& builder, ValueList parts, int64_t missing, const std::string& name) {
  const TensorType& type = parts[0]->type;
  Shape shape = type.shape;
  shape.back() = missing;
  const Provenance provenance = builder.provenance();
  builder.set_provenance({});
  parts.push_back(builder.Make(OpKind::kExpand, {builder.Scalar(type.dtype, 0)}, {{"shape", shape}},
                               name + "_padding"));
  builder.set_provenance(provenance);
  return builder.Make(OpKind::kConcat, parts, {{"axis", int64_t{type.rank() - 1}}}, name);
}

std::optional<Span> SpanOf(const Node& slice) {
  Span span;
  const Shape& from = slice.operand(0)->type.shape;
  const auto& starts = slice.Get<Exprs>("starts");
  const auto& shape = slice.result()->type.shape;
  const auto& steps = slice.Ints("steps");
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (starts[axis].IsConstant(0) && shape[axis] == from[axis] && steps[axis] == 1) continue;
    const auto start = starts[axis].AsConstant();
    const auto count = shape[axis].AsConstant();
    if (span.axis >= 0 || !start || !count || *count < 1 || steps[axis] < 1) return std::nullopt;
    span = {static_cast<int64_t>(axis), *start, *start + (*count - 1) * steps[axis] + 1};
  }
  return span;
}

Value* Sliced(Builder& builder, Value* x, int64_t axis, int64_t low, int64_t high,
              const std::string& name) {
  Shape shape = x->type.shape;
  Exprs starts(shape.size(), 0);
  starts[axis] = low;
  shape[axis] = high - low;
  const std::vector<int64_t> steps(shape.size(), 1);
  return builder.Make(OpKind::kSlice, {x}, {{"starts", starts}, {"steps", steps}, {"shape", shape}},
                      name);
}

Value* ReshapeTo(Builder& builder, Value* value, ShapeRef shape, const std::string& name) {
  if (value->type.shape == shape) return value;
  return builder.Make(OpKind::kReshape, {value}, {{"shape", Shape(shape)}}, name);
}

bool ReplaceResults(Graph& graph, function_ref<Value*(const Node&, Builder&)> rewrite) {
  bool changed = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = *graph.nodes[i];
    Builder builder(graph, i);
    builder.set_provenance(node.provenance);
    Value* result = rewrite(node, builder);
    if (!result) continue;
    graph.ReplaceAllUses(node.result(), result);
    i = builder.insert_at();
    changed = true;
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

bool RemoveDeadNodes(Graph& graph) {
  auto uses = graph.CountUses();
  bool changed = false;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    std::unique_ptr<Node>& node = graph.nodes[i];
    const bool read = std::any_of(node->results.begin(), node->results.end(),
                                  [&](const auto& result) { return uses[result.get()] > 0; });
    if (read) continue;
    for (const Value* operand : node->operands) {
      if (operand) --uses[operand];
    }
    node.reset();
    changed = true;
  }
  graph.nodes.erase(std::remove(graph.nodes.begin(), graph.nodes.end(), nullptr),
                    graph.nodes.end());
  return changed;
}

void SortNodes(Graph& graph) {
  std::vector<std::unique_ptr<Node>> sorted;
  NodeSet placed;
  std::vector<std::unique_ptr<Node>> waiting = std::move(graph.nodes);
  // Each round places the nodes whose operands are placed, in the old order. If the old order is
  // valid, one round is enough.
  while (!waiting.empty()) {
    std::vector<std::unique_ptr<Node>> later;
    for (auto& node : waiting) {
      const bool ready =
          std::all_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
            return !operand || !operand->producer || placed.count(operand->producer);
          });
      if (ready) placed.insert(node.get());
      (ready ? sorted : later).push_back(std::move(node));
    }
    FUSEC_CHECK(later.size() < waiting.size(), "nodes depend on each other in a circle");
    waiting = std::move(later);
  }
  graph.nodes = std::move(sorted);
}

bool IsConvex(const Graph& graph, const NodeSet& group) {
  // Nodes outside the group that depend on it; none of them may feed it.
  NodeSet after;
  for (const auto& node : graph.nodes) {
    const bool inside = group.count(node.get()) != 0;
    for (const Value* operand : node->operands) {
      const Node* producer = operand ? operand->producer : nullptr;
      if (!producer) continue;
      if (inside && after.count(producer)) return false;
      if (!inside && (group.count(producer) || after.count(producer))) after.insert(node.get());
    }
  }
  return true;
}

namespace {

// The values of a group's nodes that other nodes or the graph's caller read.
ValueSet ReadOutside(const Graph& graph, const NodeSet& group) {
  ValueSet read(graph.outputs.begin(), graph.outputs.end());
  for (const auto& node : graph.nodes) {
    if (group.count(node.get()) != 0) continue;
    for (const Value* operand : node->operands) {
      if (operand && operand->producer && group.count(operand->producer) != 0) read.insert(operand);
    }
  }
  return read;
}

}  // namespace

bool ShowTheSame(const Value* a, const Value* b) {
  if (a == b) return true;
  const Node *left = a->producer, *right = b->producer;
  return left && right && left->kind == right->kind && left->attributes == right->attributes &&
         GetOpDef(left->kind).op_class == OpClass::kView && left->operands.size() == 1 &&
         right->operands.size() == 1 && ShowTheSame(left->operand(0), right->operand(0));
}

Node* MakeRegion(Graph& graph, const NodeSet& group, RegionClass region_class) {
  auto body = std::make_unique<Graph>();
  body->symbols = graph.symbols;
  DenseMap<const Value*, Value*> inside;  // values of the graph -> values of the body
  ValueList operands;
  ValueList results;                             // values of the graph that the region will produce
  std::vector<std::pair<Value*, size_t>> alike;  // views equal to a result, and its number
  Provenance provenance;
  const ValueSet read_outside = ReadOutside(graph, group);
  std::vector<std::unique_ptr<Node>> kept;
  size_t position = 0;

  std::string name;
  std::vector<std::unique_ptr<Node>> members;
  for (auto& node : graph.nodes) {
    if (!group.count(node.get())) {
      kept.push_back(std::move(node));
      continue;
    }
    position = kept.size();
    name += (name.empty() ? "" : "_") + std::string(GetOpDef(node->kind).text);
    for (const Origin& origin : node->provenance) {
      if (std::find(provenance.begin(), provenance.end(), origin) == provenance.end())
        provenance.push_back(origin);
    }
    auto copy = CopyNode(*node, [&](Value* operand) {
      if (!inside.count(operand)) {
        operands.push_back(operand);
        inside[operand] = body->AddInput(operand->name, operand->type);
      }
      return inside[operand];
    });
    for (size_t i = 0; i < node->results.size(); ++i) {
      Value* const result = node->results[i].get();
      inside[result] = copy->results[i].get();
      if (read_outside.count(result) == 0) continue;
      const auto same = std::find_if(results.begin(), results.end(), [&](const Value* other) {
        return ShowTheSame(other, result) && !IsOutput(graph, result);
      });
      if (same != results.end()) {
        alike.push_back({result, static_cast<size_t>(same - results.begin())});
        continue;
      }
      results.push_back(result);
      body->outputs.push_back(inside[result]);
    }
    body->nodes.push_back(std::move(copy));
    members.push_back(std::move(node));
  }
  if (results.empty()) {  // nobody reads the group, but a region needs a result
    results.push_back(members.back()->result());
    body->outputs.push_back(inside[results[0]]);
  }
  body->name = name.substr(0, 60);
  graph.nodes = std::move(kept);
  Builder builder(graph, position);
  builder.set_provenance(provenance);
  Attributes attributes;
  attributes["class"] = std::string(RegionClassText(region_class));
  Node* region = builder.Region(operands, std::move(body), std::move(attributes));
  for (size_t i = 0; i < results.size(); ++i) {
    region->results[i]->name = results[i]->name;  // its producer is gone, so the name is free
    graph.ReplaceAllUses(results[i], region->result(static_cast<int>(i)));
  }
  for (const auto& [view, result] : alike)
    graph.ReplaceAllUses(view, region->result(static_cast<int>(result)));
  if (!alike.empty()) RemoveDeadNodes(*region->body);
  SortNodes(graph);
  return region;
}

}  // namespace fusec
