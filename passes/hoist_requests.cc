#include "passes/hoist_requests.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/op_def.h"
#include "compiler/support/check.h"
#include "passes/graph_edit.h"
#include "passes/request_rows.h"
#include "passes/row_wise.h"

namespace fusec {

namespace {

class Hoister {
 public:
  Hoister(Graph& graph, const PassOptions& options, PassReport& report, Value* map, Items items)
      : graph_(graph),
        report_(report),
        map_(map),
        items_(std::move(items)),
        requests_(map ? Expr::Symbol(kRequests) : Expr(1)) {
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const Value* input = graph.inputs[i].get();
      const bool has_items = items_.RowsPerItem(input->type.shape).has_value();  // adapter_id
      if (!has_items && IsPerRequest(graph.InputName(i), options.per_request))
        of_request_.insert(input);
    }
  }

  bool Run() {
    for (const auto& node : graph_.nodes) Decide(*node);
    const bool gains = std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const auto& node) {
      return IsHoisted(*node) ? IsOfRequest(*node) && !Replicates(*node) : Gains(*node);
    });
    Report();
    if (!gains) return false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = *graph_.nodes[i];
      Builder builder(graph_, i);
      builder.set_provenance(node.provenance);
      if (IsHoisted(node))
        Hoist(node, builder);
      else
        Rewrite(node, builder);
      i = builder.insert_at();
    }
    Builder builder(graph_);
    for (Value*& output : graph_.outputs) output = ForItems(output, builder);
    RemoveDeadNodes(graph_);
    return true;
  }

 private:
  bool IsHoisted(const Value* value) const { return value && hoisted_.count(value) != 0; }
  bool IsHoisted(const Node& node) const {
    return !node.results.empty() && IsHoisted(node.result());
  }
  // Whether the value depends on per-request inputs only, and on no input per item.
  bool IsOfRequest(const Value* value) const { return value && of_request_.count(value) != 0; }
  bool IsOfRequest(const Node& node) const {
    return std::any_of(node.operands.begin(), node.operands.end(),
                       [&](const Value* operand) { return IsOfRequest(operand); });
  }
  // Whether the node itself gives items the rows of their requests.
  bool Replicates(const Node& node) const {
    if (map_) return IsReadThroughMap(node);
    return node.kind == OpKind::kExpand && !IsHoisted(node.operand(0));
  }
  bool IsReadThroughMap(const Node& node) const {
    return map_ && node.kind == OpKind::kGather && node.Int("axis") == 0 &&
           node.operand(1) == map_ && IsOfRequest(node.operand(0)) &&
           node.operand(0)->type.shape[0] == requests_;
  }

  void Decide(const Node& node) {
    if (node.kind == OpKind::kConstant || node.results.empty()) return;
    const bool is_of_request = IsOfRequest(node);
    const auto is_by_item = [&](const Value* value) { return IsHoisted(value); };
    const bool reads_items = std::any_of(node.operands.begin(), node.operands.end(), is_by_item);
    std::optional<std::string> reason;
    if (!IsReadThroughMap(node)) reason = WhyNotRowWise(node, items_, is_by_item);
    if (!reason) {
      for (const auto& result : node.results) hoisted_.insert(result.get());
    } else if (is_of_request && !reads_items && DependsOnRequestsOnly(node)) {
      reason.reset();  // a view before the replication is computed once in any case
    }
    if (is_of_request && !reason) {
      for (const auto& result : node.results) of_request_.insert(result.get());
    }
    if (is_of_request && reason) stops_.push_back({&node, *reason});
  }

  // Whether no operand and no result has rows of items.
  bool DependsOnRequestsOnly(const Node& node) const {
    const auto is_free = [&](const Value* value) {
      if (!value) return true;
      return std::none_of(value->type.shape.begin(), value->type.shape.end(),
                          [&](const Expr& dim) { return items_.DependOn(dim); });
    };
    return std::all_of(node.operands.begin(), node.operands.end(), is_free) &&
           std::all_of(node.results.begin(), node.results.end(),
                       [&](const auto& result) { return is_free(result.get()); });
  }

  Exprs PerRequest(ArrayRef<Expr> dims) const {
    Exprs replaced;
    for (const Expr& dim : dims) {
      replaced.push_back(dim.Substitute(
          [&](const std::string& symbol) {
            return symbol == items_.batch() ? std::optional(requests_) : std::nullopt;
          },
          items_.ranges()));
    }
    return replaced;
  }

  // Makes the node's results once per request.
  void Hoist(const Node& node, Builder& builder) {
    ValueList operands;
    for (Value* operand : node.operands)
      operands.push_back(IsHoisted(operand) ? small_.at(operand) : operand);
    if (Replicates(node) && PerRequest(node.result()->type.shape) == operands[0]->type.shape) {
      small_[node.result()] = operands[0];
      return;
    }
    Attributes attributes = node.attributes;
    for (auto& [name, attribute] : attributes) {
      if (const auto* dims = std::get_if<Exprs>(&attribute)) attribute = PerRequest(*dims);
    }
    const auto made = builder.Add(node.kind, operands, std::move(attributes),
                                  node.result()->name + "_of_request");
    FUSEC_CHECK(made.has_value(), "hoisting " + PrintNode(node) + ": " + made.error().message);
    for (size_t i = 0; i < node.results.size(); ++i) {
      Value* small = (*made)->result(static_cast<int>(i));
      FUSEC_CHECK(small->type.shape == PerRequest(node.result(static_cast<int>(i))->type.shape),
                  "hoisting " + PrintNode(node) + " gave " + small->type.ToString());
      small_[node.result(static_cast<int>(i))] = small;
    }
  }

  // The rows of each item of a value that is computed per request.
  Value* ForItems(Value* value, Builder& builder) {
    if (!IsHoisted(value) || !IsOfRequest(value)) return value;
    if (Replicates(*value->producer) && small_.at(value) == value->producer->operand(0))
      return value;
    Value*& replicated = replicated_[value];
    if (!replicated) replicated = Replicate(small_.at(value), value, builder);
    return replicated;
  }

  Value* Replicate(Value* small, const Value* value, Builder& builder) {
    const std::string name = value->name + "_of_item";
    const Shape& shape = value->type.shape;
    const Expr rows = *items_.RowsPerItem(shape);
    if (rows.IsConstant(1)) return ReplicateRows(small, builder, name);
    Exprs apart = {requests_, rows};
    apart.insert(apart.end(), shape.begin() + 1, shape.end());
    Value* split = builder.Make(OpKind::kReshape, {small}, {{"shape", apart}}, name + "_rows");
    return builder.Make(OpKind::kReshape, {ReplicateRows(split, builder, name + "_apart")},
                        {{"shape", Exprs(shape)}}, name);
  }

  Value* ReplicateRows(Value* small, Builder& builder, const std::string& name) {
    if (map_) return builder.Make(OpKind::kGather, {small, map_}, {{"axis", int64_t{0}}}, name);
    Exprs shape = small->type.shape;
    shape[0] = Expr::Symbol(items_.batch());
    return builder.Make(OpKind::kExpand, {small}, {{"shape", shape}}, name);
  }

  // Whether Rewrite would remove a replication.
  bool Gains(const Node& node) const {
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (Broadcasts(node, i)) return true;
    }
    return IsProductByRequestMatrix(node);
  }

  void Rewrite(Node& node, Builder& builder) {
    if (node.kind == OpKind::kConcat) JoinNeighbours(node, builder);
    if (IsProductByRequestMatrix(node)) return MultiplyAllRows(node, builder);
    ValueList operands = node.operands;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (Broadcasts(node, i)) operands[i] = small_.at(node.operands[i]);
    }
    for (Value*& operand : operands) operand = ForItems(operand, builder);
    node.operands = std::move(operands);
  }

  // Whether an op broadcasts the row of the only request by itself, since another operand has the
  // batch.
  bool Broadcasts(const Node& node, size_t i) const {
    const Value* operand = node.operands[i];
    const bool is_product = node.kind == OpKind::kMatMul && node.result()->type.rank() > 2;
    if (map_ || !IsHoisted(operand) || !IsOfRequest(operand) ||
        (GetOpDef(node.kind).op_class != OpClass::kPointwise && !is_product))
      return false;
    const Shape& result = node.result()->type.shape;
    const Expr batch = Expr::Symbol(items_.batch());
    const auto has_batch = [&](const Value* value) {
      return value && value->type.shape.size() == result.size() && value->type.shape[0] == batch;
    };
    return !result.empty() && result[0] == batch && has_batch(operand) &&
           std::any_of(node.operands.begin(), node.operands.end(),
                       [&](const Value* other) { return !IsHoisted(other) && has_batch(other); });
  }

  // Whether the rows of all items are multiplied by one matrix of the only request.
  bool IsProductByRequestMatrix(const Node& node) const {
    if (node.kind != OpKind::kMatMul || node.result()->type.rank() != 3) return false;
    return Broadcasts(node, 1) && !IsHoisted(node.operand(0)) && node.Int("transpose_a") == 0;
  }

  void MultiplyAllRows(Node& node, Builder& builder) {
    const Shape &left = node.operand(0)->type.shape, &result = node.result()->type.shape;
    Value* matrix = small_.at(node.operand(1));
    const std::string name = node.result()->name;
    Value* rows = builder.Make(OpKind::kReshape, {node.operand(0)},
                               {{"shape", Exprs{left[0] * left[1], left[2]}}}, name + "_rows");
    matrix = builder.Make(OpKind::kReshape, {matrix},
                          {{"shape", Exprs{matrix->type.shape[1], matrix->type.shape[2]}}},
                          name + "_matrix");
    Value* product =
        builder.Make(OpKind::kMatMul, {rows, matrix}, node.attributes, name + "_of_rows");
    node.kind = OpKind::kReshape;
    node.operands = {product};
    node.attributes = {{"shape", Exprs(result)}};
  }

  // Concatenates neighboring parts that are computed per request before they are replicated.
  void JoinNeighbours(Node& concat, Builder& builder) {
    const int64_t axis = concat.Int("axis");
    if (axis == 0) return;  // it concatenates rows
    ValueList parts;
    for (size_t i = 0; i < concat.operands.size();) {
      size_t end = i;
      while (end < concat.operands.size() && IsHoisted(concat.operands[end]) &&
             IsOfRequest(concat.operands[end]))
        ++end;
      if (end - i < 2) {
        parts.push_back(concat.operands[i++]);
        continue;
      }
      ValueList small;
      for (; i < end; ++i) small.push_back(small_.at(concat.operands[i]));
      const std::string name = concat.result()->name + "_part";
      Value* joined = builder.Make(OpKind::kConcat, small, {{"axis", axis}}, name + "_of_request");
      TensorType type = joined->type;
      type.shape[0] = concat.result()->type.shape[0];
      Value like{name, type};
      parts.push_back(Replicate(joined, &like, builder));
    }
    concat.operands = std::move(parts);
  }

  void Report() {
    RequestSplit& split = report_.request_split;
    const auto op_of = [](const Node& node) {
      return RequestSplit::Op{node.result()->name, GetOpDef(node.kind).text};
    };
    for (const auto& node : graph_.nodes) {
      if (!node->results.empty() && IsOfRequest(node->result()) && !Replicates(*node))
        split.per_request.push_back(op_of(*node));
    }
    for (const auto& [node, reason] : stops_) {
      const auto first = std::find_if(node->operands.begin(), node->operands.end(),
                                      [&](const Value* operand) { return IsOfRequest(operand); });
      split.stops.push_back({(*first)->name, op_of(*node), reason});
    }
  }

  Graph& graph_;
  PassReport& report_;
  Value* map_;
  Items items_;
  Expr requests_;
  ValueSet hoisted_, of_request_;
  DenseMap<const Value*, Value*> small_, replicated_;
  std::vector<std::pair<const Node*, std::string>> stops_;
};

}  // namespace

Result<bool> HoistRequests(Graph& graph, const PassOptions& options, PassReport& report) {
  const auto batch = BatchOfItems(graph, options.per_request);
  if (!batch) return false;
  return Hoister(graph, options, report, FindRequestMap(graph), Items(*batch, graph.SymbolRanges()))
      .Run();
}

}  // namespace fusec
