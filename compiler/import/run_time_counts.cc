#include "compiler/import/run_time_counts.h"

#include <algorithm>

#include "compiler/import/counted_outputs.h"
#include "compiler/import/counted_rows.h"
#include "compiler/ir/op_def.h"

namespace fusec {
namespace {

// Follows `value` back to the tensor that is nonzero where `value` is, in the same row-major order.
const Value* MaskOf(const Value* value) {
  for (const Node* node = value->producer; node != nullptr; node = value->producer) {
    const bool keeps =
        node->kind == OpKind::kIdentity || node->kind == OpKind::kReshape ||
        (node->kind == OpKind::kCast &&
         (value->type.dtype == Dtype::kBool || node->operand(0)->type.dtype == Dtype::kBool));
    if (!keeps) break;
    value = node->operand(0);
  }
  return value;
}

// The mask whose nonzero elements `value`, a tensor of one element, counts; null for other values.
const Value* CountedMask(const Value* value) {
  const auto maker = [&] { return value->producer; };
  while (maker() && (maker()->kind == OpKind::kReshape || maker()->kind == OpKind::kIdentity)) {
    value = maker()->operand(0);
  }
  const Node* sum = maker();
  if (sum == nullptr || sum->kind != OpKind::kReduceSum) return nullptr;
  const Value* terms = sum->operand(0);
  const bool sums_all = static_cast<int>(sum->Ints("axes").size()) == terms->type.rank();
  while (terms->producer != nullptr && (terms->producer->kind == OpKind::kReshape ||
                                        terms->producer->kind == OpKind::kIdentity)) {
    terms = terms->producer->operand(0);
  }
  const Node* cast = terms->producer;
  const bool are_bits = cast != nullptr && cast->kind == OpKind::kCast &&
                        cast->operand(0)->type.dtype == Dtype::kBool;
  const bool is_wide = terms->type.dtype == Dtype::kI64 || terms->type.dtype == Dtype::kI32;
  return sums_all && are_bits && is_wide ? MaskOf(cast->operand(0)) : nullptr;
}

// The nodes that `values` depend on.
NodeSet NodesOf(const Graph& graph, ArrayRef<Value*> values) {
  NodeSet live;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i];
    const bool is_read = std::any_of(node.results.begin(), node.results.end(), [&](const auto& r) {
      return std::find(values.begin(), values.end(), r.get()) != values.end();
    });
    if (!is_read && live.count(&node) == 0) continue;
    live.insert(&node);
    for (const Value* operand : node.operands) {
      if (operand != nullptr && operand->producer != nullptr) live.insert(operand->producer);
    }
  }
  return live;
}

void RemoveDeadNodes(Graph& graph) {
  const NodeSet live = NodesOf(graph, graph.outputs);
  const auto is_dead = [&](const auto& node) { return live.count(node.get()) == 0; };
  graph.nodes.erase(std::remove_if(graph.nodes.begin(), graph.nodes.end(), is_dead),
                    graph.nodes.end());
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

Expr RunTimeCounts::Of(Value* lengths, int number, const Expr& bound, Graph& graph,
                       Ranges& ranges) {
  const Value* mask = CountedMask(lengths);
  for (const Count& count : counts_) {
    const bool is_same =
        mask != nullptr ? mask == count.mask : count.lengths == lengths && count.number == number;
    if (is_same && count.bound == bound) return count.Size();
  }
  Count count{CountSymbol(first_number_ + counts_.size()), bound, lengths, number, mask};
  if (const auto same = same_.find(count.symbol); same != same_.end()) {
    std::vector<std::string> symbols;
    same->second.CollectSymbols(symbols);
    const bool is_known = std::all_of(symbols.begin(), symbols.end(), [&](const auto& symbol) {
      return ranges.Find(symbol) != nullptr;
    });
    if (is_known) count.same = same->second;
  }
  counts_.push_back(count);
  if (count.same) return *count.same;
  ranges.Set(count.symbol, 0, bound);
  graph.symbols.push_back({count.symbol, 0, ranges.IntervalOf(bound).high});
  return Expr::Symbol(count.symbol);
}

std::optional<Expr> RunTimeCounts::OfSum(const Value* sum) const {
  const Value* mask = CountedMask(sum);
  for (const Count& count : counts_) {
    if (mask != nullptr && mask == count.mask) return count.Size();
  }
  return std::nullopt;
}

const RunTimeCounts::Count* RunTimeCounts::Find(const std::string& symbol) const {
  const auto found = std::find_if(counts_.begin(), counts_.end(),
                                  [&](const Count& count) { return count.symbol == symbol; });
  return found == counts_.end() ? nullptr : &*found;
}

Value* RunTimeCounts::Held(const std::string& symbol, Formula& f) const {
  const Count* count = Find(symbol);
  if (count == nullptr) return nullptr;
  Value* length = f.Slice(count->lengths, 0, count->number, 1);
  return f.Reshape(f.Cast(length, Dtype::kI64), {});
}

// The nodes that outputs depend on, and those that compute the counts which occur in sizes of these
// nodes.
NodeSet RunTimeCounts::NodesThatMatter(const Graph& graph) const {
  ValueList roots = graph.outputs;
  NodeSet live = NodesOf(graph, roots);
  std::vector<bool> is_root(counts_.size());
  for (bool grows = true; grows;) {
    grows = false;
    std::vector<std::string> symbols;
    for (const auto& node : graph.nodes) {
      if (live.count(node.get()) == 0) continue;
      for (const auto& result : node->results) {
        for (const Expr& dim : result->type.shape) dim.CollectSymbols(symbols);
      }
      for (const auto& [name, attribute] : node->attributes) {
        const auto* dims = std::get_if<Exprs>(&attribute);
        for (const Expr& dim : dims == nullptr ? Exprs() : *dims) dim.CollectSymbols(symbols);
      }
    }
    for (size_t k = 0; k < counts_.size(); ++k) {
      const bool is_size =
          std::find(symbols.begin(), symbols.end(), counts_[k].symbol) != symbols.end();
      if (is_root[k] || !is_size) continue;
      is_root[k] = grows = true;
      roots.push_back(counts_[k].lengths);
    }
    if (grows) live = NodesOf(graph, roots);
  }
  return live;
}

// Computes sizes that the graph uses as data (symbolic_dims) from the counts at run time, such as
// the number of rows by which a mean divides.
void RunTimeCounts::SizesBecomeData(Graph& graph) const {
  const NodeSet live = NodesThatMatter(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = *graph.nodes[i];
    if (live.count(&node) == 0 || node.kind != OpKind::kSymbolicDims) continue;
    const Exprs& sizes = node.Get<Exprs>("values");
    if (!IsCounted(sizes)) continue;
    Builder builder(graph, i);
    builder.set_provenance(node.provenance);
    Formula f(builder);
    ValueList elements;
    for (const Expr& size : sizes) {
      Value* element = SizeAsData(
          size, [&](const std::string& symbol) { return Held(symbol, f); }, f);
      if (element != nullptr) elements.push_back(f.Reshape(element, {1}));
    }
    i = builder.insert_at();  // the node itself
    if (elements.size() < sizes.size()) continue;
    Value* data = f.Reshape(f.Concat(elements, 0), node.result()->type.shape);
    i = builder.insert_at();
    graph.ReplaceAllUses(node.result(), data);
  }
}

SizeTotals RunTimeCounts::Totals(const Graph& graph) const {
  SizeTotals totals;
  for (const Count& count : counts_) {
    if (count.mask == nullptr) NoteTotal(graph, count.lengths, count.bound, totals);
  }
  return totals;
}

void RunTimeCounts::RowsBehindDoNotMatter(Graph& graph, const Ranges& ranges, Problems& problems) {
  const NodeSet live = NodesThatMatter(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i];
    if (live.count(&node) == 0 || !MentionsCounts(node) || IsRowLocal(node)) continue;
    Builder builder(graph, i);
    builder.set_provenance(node.provenance);
    Formula f(builder);
    const ValueList results = WithoutRowsBehind(
        node, [&](const std::string& symbol) { return Held(symbol, f); }, ranges, builder);
    i = builder.insert_at();  // the node itself; if it was replaced, nothing reads it
    for (size_t k = 0; k < results.size(); ++k) {
      graph.ReplaceAllUses(node.results[k].get(), results[k]);
      for (Count& count : counts_) {
        if (count.lengths == node.results[k].get()) count.lengths = results[k];
      }
    }
    if (!results.empty()) continue;
    const std::string place = node.provenance.empty() || node.provenance[0].onnx_node.empty()
                                  ? "node of \"" + node.result()->name + "\""
                                  : "node \"" + node.provenance[0].onnx_node + "\"";
    problems.Add(
        place + " (" + GetOpDef(node.kind).text +
        ") reads a tensor whose size is computed from run-time data, which fusec supports "
        "only in lookups, scatters, reductions, concatenations, views, elementwise ops and bags "
        "with explicit ends");
    return;  // later nodes would only repeat the problem
  }
}

// Fails the run if a count differs from the size that it must equal: the first output is replaced
// by a gather from itself as the only row of a table, with index 1, which is out of range, if a
// count differs.
void RunTimeCounts::SameSizesAreChecked(Graph& graph) const {
  if (graph.outputs.empty()) return;
  Value*& output = graph.outputs[0];
  Builder builder(graph);
  if (output->producer != nullptr) builder.set_provenance(output->producer->provenance);
  Formula f(builder);
  const auto count_of = [&](const std::string& symbol) { return Held(symbol, f); };
  Value* row = nullptr;
  for (const Count& count : counts_) {
    if (!count.same) continue;
    Value* differs = f.Unary(
        OpKind::kNot,
        f.Make(OpKind::kEqual, {count_of(count.symbol), SizeAsData(*count.same, count_of, f)}));
    row = row == nullptr ? differs : f.Make(OpKind::kOr, {row, differs});
  }
  if (row == nullptr) return;
  const Shape shape = output->type.shape;
  Shape in_row = {Expr(1)};
  in_row.insert(in_row.end(), shape.begin(), shape.end());
  Value* place = f.Make(OpKind::kCast, {row}, {{"to", Dtype::kI64}}, "run_time_sizes_differ");
  output = f.GatherOrFail(f.Reshape(output, in_row), place);
}

void RunTimeCounts::Resolve(Graph& graph, const Ranges& with_counts, Problems& problems) {
  if (empty()) return;
  SameSizesAreChecked(graph);
  SizesBecomeData(graph);
  RowsBehindDoNotMatter(graph, with_counts, problems);
  Builder at_end(graph);
  Formula f(at_end);
  AddRunTimeSizes([&](const std::string& symbol) { return Held(symbol, f); }, at_end, problems);
  RemoveDeadNodes(graph);  // lookups of padding rows in them could fail the run
  auto& symbols = graph.symbols;
  symbols.erase(std::remove_if(symbols.begin(), symbols.end(),
                               [&](const DimSymbol& symbol) { return Find(symbol.name); }),
                symbols.end());
  const Ranges ranges = graph.SymbolRanges();
  const auto bound_of = [&](const std::string& symbol) -> std::optional<Expr> {
    const Count* count = Find(symbol);
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
