#include "compiler/import/run_time_counts.h"

#include <algorithm>

#include "compiler/ir/op_def.h"

namespace fusec {
namespace {

constexpr char kPrefix[] = "run_time_count_";

bool IsCounted(const Expr& dim) {
  std::vector<std::string> symbols;
  dim.CollectSymbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(),
                     [](const std::string& symbol) { return symbol.starts_with(kPrefix); });
}

bool IsCounted(ShapeRef shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Expr& dim) { return IsCounted(dim); });
}

// The axis of `shape` that is a count by itself, the only one that mentions counts; -1 if there is
// none, or if counts are part of other sizes.
int CountedAxis(ShapeRef shape) {
  int found = -1;
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    if (!IsCounted(shape[axis])) continue;
    if (found >= 0 || !shape[axis].AsSymbol()) return -1;
    found = axis;
  }
  return found;
}

bool Has(const std::vector<int64_t>& axes, int axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// Whether each row of the result comes from the same row of the operand.
bool KeepsRows(const Node& view) {
  const Shape& from = view.operand(0)->type.shape;
  const Shape& to = view.result()->type.shape;
  const int before = CountedAxis(from), after = CountedAxis(to);
  switch (view.kind) {
    case OpKind::kIdentity:
    case OpKind::kTranspose:
      return true;
    case OpKind::kExpand:  // broadcasting aligns the last axes
      return before < 0 || from.size() - before == to.size() - after;
    case OpKind::kReshape: {
      const auto product = [](ShapeRef shape, size_t begin, size_t end) {
        return Product(Shape(shape.begin() + begin, shape.begin() + end));
      };
      return before >= 0 && after >= 0 && from[before] == to[after] &&
             product(from, 0, before) == product(to, 0, after) &&
             product(from, before + 1, from.size()) == product(to, after + 1, to.size());
    }
    case OpKind::kSlice:
      return before >= 0 && before == after && from[before] == to[after] &&
             view.Get<Exprs>("starts")[before].IsConstant(0);
    default:
      return false;
  }
}

// Whether rows behind the count of an operand only reach rows behind that of the result.
bool IsRowLocal(const Node& node) {
  const Shape& result = node.result()->type.shape;
  if (IsCounted(result) && CountedAxis(result) < 0) return false;
  for (const Value* operand : node.operands) {
    if (operand && IsCounted(operand->type.shape) && CountedAxis(operand->type.shape) < 0) {
      return false;
    }
  }
  const Value* first = node.operand(0);
  const int axis = first == nullptr ? -1 : CountedAxis(first->type.shape);
  switch (GetOpDef(node.kind).op_class) {
    case OpClass::kPointwise:
      return node.kind != OpKind::kSymbolicDims;
    case OpClass::kView:
      if (node.kind != OpKind::kConcat) return KeepsRows(node);
      return CountedAxis(result) >= 0 && CountedAxis(result) != node.Int("axis");
    case OpClass::kGather:
      if (node.kind == OpKind::kGather) return axis < 0 || axis != node.Int("axis");
      if (node.kind == OpKind::kSegmentReduce) return node.operand(2) != nullptr || axis < 0;
      return false;
    case OpClass::kReduction:
      return !Has(node.Ints("axes"), axis);
    case OpClass::kContraction:  // rows of the left factor
      return CountedAxis(node.operand(1)->type.shape) < 0 && axis == first->type.rank() - 2 &&
             node.Int("transpose_a") == 0;
    default:
      return false;
  }
}

NodeSet NodesOfOutputs(const Graph& graph) {
  NodeSet live;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i];
    const bool is_read = std::any_of(node.results.begin(), node.results.end(), [&](const auto& r) {
      return std::find(graph.outputs.begin(), graph.outputs.end(), r.get()) != graph.outputs.end();
    });
    if (!is_read && live.count(&node) == 0) continue;
    live.insert(&node);
    for (const Value* operand : node.operands) {
      if (operand != nullptr && operand->producer != nullptr) live.insert(operand->producer);
    }
  }
  return live;
}

bool MentionsCounts(const Node& node) {
  for (const Value* operand : node.operands) {
    if (operand != nullptr && IsCounted(operand->type.shape)) return true;
  }
  for (const auto& [name, attribute] : node.attributes) {
    const auto* dims = std::get_if<Exprs>(&attribute);
    if (dims != nullptr && IsCounted(*dims)) return true;
  }
  return false;
}

}  // namespace

Expr RunTimeCounts::Of(Value* lengths, int number, const Expr& bound, Ranges& ranges) {
  for (const Count& count : counts_) {
    if (count.lengths == lengths && count.number == number && count.bound == bound) {
      return Expr::Symbol(count.symbol);
    }
  }
  counts_.push_back({kPrefix + std::to_string(counts_.size()), bound, lengths, number});
  ranges.Set(counts_.back().symbol, 0, bound);
  return Expr::Symbol(counts_.back().symbol);
}

const RunTimeCounts::Count* RunTimeCounts::Find(const Expr& dim) const {
  const std::optional<std::string> symbol = dim.AsSymbol();
  const auto found = std::find_if(counts_.begin(), counts_.end(), [&](const Count& count) {
    return symbol && count.symbol == *symbol;
  });
  return found == counts_.end() ? nullptr : &*found;
}

// The number of rows of a part, as a mean over it asks for it, is one of the lengths.
void RunTimeCounts::CountsBecomeLengths(Graph& graph, const NodeSet& live) const {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = *graph.nodes[i];
    if (live.count(&node) == 0 || node.kind != OpKind::kSymbolicDims) continue;
    const Exprs& values = node.Get<Exprs>("values");
    const Count* count = values.size() == 1 ? Find(values[0]) : nullptr;
    if (count == nullptr) continue;
    Builder builder(graph, i);
    builder.set_provenance(node.provenance);
    Value* length = builder.Make(OpKind::kSlice, {count->lengths},
                                 {{"starts", Exprs{Expr(count->number)}},
                                  {"steps", std::vector<int64_t>{1}},
                                  {"shape", Exprs{Expr(1)}}});
    if (length->type.dtype != Dtype::kI64) {
      length = builder.Make(OpKind::kCast, {length}, {{"to", Dtype::kI64}});
    }
    if (node.result()->type.rank() == 0) {
      length = builder.Make(OpKind::kReshape, {length}, {{"shape", Shape{}}});
    }
    graph.ReplaceAllUses(node.result(), length);
    i = builder.insert_at();  // the node itself, which nothing reads any more
  }
}

SizeTotals RunTimeCounts::Totals(const Graph& graph) const {
  SizeTotals totals;
  for (const Count& count : counts_) NoteTotal(graph, count.lengths, count.bound, totals);
  return totals;
}

void RunTimeCounts::Resolve(Graph& graph, Problems& problems) const {
  if (empty()) return;
  CountsBecomeLengths(graph, NodesOfOutputs(graph));
  const NodeSet live = NodesOfOutputs(graph);
  for (const auto& node : graph.nodes) {
    if (live.count(node.get()) == 0 || !MentionsCounts(*node) || IsRowLocal(*node)) continue;
    const std::string place = node->provenance.empty() || node->provenance[0].onnx_node.empty()
                                  ? "node of \"" + node->result()->name + "\""
                                  : "node \"" + node->provenance[0].onnx_node + "\"";
    problems.Add(place + " (" + GetOpDef(node->kind).text +
                 ") reads a tensor whose size is computed from run-time data, which fusec supports "
                 "in look-ups, element by element, and in bags with bounds of their own");
    return;  // what follows would say the same
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (!IsCounted(graph.outputs[i]->type.shape)) continue;
    problems.Add("output \"" + graph.OutputName(i) +
                 "\" has a size that is computed from run-time data, which fusec does not support");
  }
  const Ranges ranges = graph.SymbolRanges();
  const auto bound_of = [&](const std::string& symbol) -> std::optional<Expr> {
    const Count* count = Find(Expr::Symbol(symbol));
    return count == nullptr ? std::nullopt : std::optional(count->bound);
  };
  const auto substitute = [&](auto& dims) {
    for (Expr& dim : dims) {
      while (IsCounted(dim)) dim = dim.Substitute(bound_of, ranges);  // bounds may be counts
    }
  };
  for (const auto& node : graph.nodes) {
    for (const auto& result : node->results) substitute(result->type.shape);
    for (auto& [name, attribute] : node->attributes) {
      if (auto* dims = std::get_if<Exprs>(&attribute)) substitute(*dims);
    }
  }
}

}  // namespace fusec
