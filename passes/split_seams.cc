#include "passes/split_seams.h"

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/ir/op_def.h"
#include "passes/fuse_block_program.h"
#include "passes/graph_edit.h"
#include "passes/request_rows.h"

namespace fusec {

namespace {

// Columns of a concatenation, and the rows of the weights by which they are multiplied.
struct Columns {
  ValueList parts;
  std::vector<std::pair<int64_t, int64_t>> rows;  // first, count

  void Add(Value* part, int64_t first, int64_t count) {
    parts.push_back(part);
    if (!rows.empty() && rows.back().first + rows.back().second == first)
      rows.back().second += count;
    else
      rows.emplace_back(first, count);
  }
  int64_t count() const {
    int64_t sum = 0;
    for (const auto& [first, count] : rows) sum += count;
    return sum;
  }
};

struct Seams {
  Columns of_request, of_items;
  const Node* replication = nullptr;  // that of one shared part; all others are replicated alike
};

// The fewest rows that must share columns which the model itself replicates; the additional product
// costs a launch.
constexpr int64_t kFewestRows = 8;

class Splitter {
 public:
  Splitter(Graph& graph, PassReport& report, bool has_requests)
      : graph_(graph),
        report_(report),
        has_requests_(has_requests),
        map_(has_requests ? FindRequestMap(graph) : nullptr) {}

  bool Run() {
    bool changed = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& product = *graph_.nodes[i];
      const auto seams = FindSeams(product);
      if (!seams) continue;
      const ReaderMap readers = Readers(graph_);
      Builder builder(graph_, i);
      builder.set_provenance(product.provenance);
      Split(product, *seams, readers, builder);
      i = builder.insert_at();
      changed = true;
    }
    if (changed) {
      RemoveDeadNodes(graph_);
      ForgetStops();
    }
    return changed;
  }

 private:
  // The parts of the product's rows, if some are shared and some are not.
  std::optional<Seams> FindSeams(const Node& product) const {
    if (product.kind != OpKind::kMatMul || product.Int("transpose_a") != 0 ||
        product.operand(1)->type.rank() != 2 || !IsFloat(product.result()->type.dtype))
      return std::nullopt;
    const Node* concat = product.operand(0)->producer;
    if (!concat || concat->kind != OpKind::kConcat ||
        concat->Int("axis") != concat->result()->type.rank() - 1)
      return std::nullopt;
    Seams seams;
    int64_t first = 0;
    for (Value* part : concat->operands) {
      const auto count = part->type.shape.back().AsConstant();
      if (!count) return std::nullopt;
      const Node* replication = ReplicationOf(part, map_);
      if (!replication && !has_requests_) replication = ReplicatedRows(part);
      if (replication && seams.replication && !AreAlike(*replication, *seams.replication))
        replication = nullptr;
      if (replication) seams.replication = replication;
      (replication ? seams.of_request : seams.of_items)
          .Add(replication ? replication->operand(0) : part, first, *count);
      first += *count;
    }
    if (seams.of_request.parts.empty() || seams.of_items.parts.empty()) return std::nullopt;
    const Expr weights = product.result()->type.shape.back() * seams.of_request.count();
    if (!has_requests_ && weights.AsConstant().value_or(0) <= kMostSharedWeights)
      return std::nullopt;
    return seams;
  }

  // The expand that replicates the columns of one row to many rows, if `part` is made by one;
  // otherwise null.
  static const Node* ReplicatedRows(const Value* part) {
    const Node* expand = part->producer;
    if (!expand || expand->kind != OpKind::kExpand) return nullptr;
    const Shape &source = expand->operand(0)->type.shape, &shape = part->type.shape;
    if (source.size() != shape.size() || source.back() != shape.back()) return nullptr;
    int64_t rows = 1;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (source[axis] != shape[axis]) rows *= shape[axis].AsConstant().value_or(kFewestRows);
    }
    return rows >= kFewestRows ? expand : nullptr;
  }
  // Whether both expands replicate along the same axes.
  static bool AreAlike(const Node& first, const Node& second) {
    const Shape &a = first.operand(0)->type.shape, &b = second.operand(0)->type.shape;
    return first.kind == second.kind && a.size() == b.size() &&
           std::equal(a.begin(), a.end() - 1, b.begin());
  }

  void Split(Node& product, const Seams& seams, const ReaderMap& readers, Builder& builder) {
    const std::string name = product.result()->name;
    Value* of_request = Multiply(product, seams.of_request, name + SharedSuffix(), builder);
    Value* of_items = Multiply(product, seams.of_items,
                               name + (has_requests_ ? "_of_items" : "_of_rows"), builder);
    // If a bias is added to the product, the new sum replaces that addition.
    if (Node* biased = BiasOf(product, readers)) {
      const bool is_left = biased->operand(0) == product.result();
      Builder behind(graph_, PlaceOf(*biased));
      behind.set_provenance(biased->provenance);
      of_request = behind.Make(OpKind::kAdd, {of_request, biased->operand(is_left ? 1 : 0)}, {},
                               biased->result()->name + SharedSuffix());
      SetSum(*biased, of_items, of_request, *seams.replication, behind);
    } else {
      SetSum(product, of_items, of_request, *seams.replication, builder);
    }
    if (has_requests_)
      report_.request_split.seams.push_back(
          {name, seams.of_request.count(), seams.of_items.count()});
  }

  std::string SharedSuffix() const { return has_requests_ ? "_of_request" : "_shared"; }

  Value* Multiply(const Node& product, const Columns& columns, const std::string& name,
                  Builder& builder) const {
    Value* row = columns.parts[0];
    if (columns.parts.size() > 1) {
      row = builder.Make(OpKind::kConcat, columns.parts, {{"axis", int64_t{row->type.rank() - 1}}},
                         name + "_row");
    }
    Value* weights = product.operand(1);
    const int64_t axis = product.Int("transpose_b") != 0 ? 1 : 0;
    ValueList slices;
    for (const auto& [first, count] : columns.rows)
      slices.push_back(
          Sliced(builder, weights, axis, first, first + count, weights->name + "_rows"));
    Value* rows = slices.size() == 1
                      ? slices[0]
                      : builder.Make(OpKind::kConcat, slices, {{"axis", axis}}, name + "_weights");
    return builder.Make(OpKind::kMatMul, {row, rows}, product.attributes, name);
  }

  // The only reader of the product, if it adds a bias of one number per column; otherwise null.
  Node* BiasOf(const Node& product, const ReaderMap& readers) const {
    if (!HasOneReader(graph_, readers, product.result())) return nullptr;
    Node* add = readers.at(product.result())[0];
    if (add->kind != OpKind::kAdd || add->result()->type != product.result()->type) return nullptr;
    const Value* bias = add->operand(add->operand(0) == product.result() ? 1 : 0);
    const bool is_bias = IsConstant(bias) && bias->type.rank() > 0 &&
                         bias->type.rank() <= product.result()->type.rank() &&
                         bias->type.ElementCount() == bias->type.shape.back();
    return is_bias ? add : nullptr;
  }

  // Removes stops whose reader is a concatenation that has been removed.
  void ForgetStops() {
    std::set<std::string> names;
    for (const auto& node : graph_.nodes) {
      for (const auto& result : node->results) names.insert(result->name);
    }
    auto& stops = report_.request_split.stops;
    stops.erase(std::remove_if(stops.begin(), stops.end(),
                               [&](const auto& stop) { return !names.count(stop.reader.value); }),
                stops.end());
  }

  size_t PlaceOf(const Node& node) const {
    const auto found = std::find_if(graph_.nodes.begin(), graph_.nodes.end(),
                                    [&](const auto& other) { return other.get() == &node; });
    return static_cast<size_t>(found - graph_.nodes.begin());
  }

  // Turns `node` into the sum of both products. The product of the shared columns is replicated,
  // unless the sum can broadcast it.
  void SetSum(Node& node, Value* of_items, Value* of_request, const Node& replication,
              Builder& builder) const {
    if (replication.kind == OpKind::kGather) {
      of_request = builder.Make(OpKind::kGather, {of_request, replication.operand(1)},
                                {{"axis", int64_t{0}}}, of_request->name + "_of_item");
    }
    node.kind = OpKind::kAdd;
    node.operands = {of_items, of_request};
    node.attributes.clear();
  }

  Graph& graph_;
  PassReport& report_;
  const bool has_requests_;
  const Value* map_;
};

}  // namespace

Result<bool> SplitSeams(Graph& graph, const PassOptions& options, PassReport& report) {
  return Splitter(graph, report, !options.per_request.inputs.empty()).Run();
}

}  // namespace fusec
