#include "passes/shard_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/host_table.h"
#include "compiler/support/check.h"
#include "passes/graph_edit.h"
#include "passes/lineage.h"
#include "passes/recipe.h"

namespace fusec {

namespace {

std::map<std::string, Value*> ValuesByName(const Graph& graph) {
  std::map<std::string, Value*> values;
  for (const auto& input : graph.inputs) values[input->name] = input.get();
  for (const auto& node : graph.nodes) {
    for (const auto& result : node->results) values[result->name] = result.get();
  }
  return values;
}

std::set<std::string> SymbolsOf(const Value& value) {
  std::vector<std::string> names;
  for (const Expr& dim : value.type.shape) dim.CollectSymbols(names);
  return {names.begin(), names.end()};
}

}  // namespace

void KeepWhatIsRead(Graph& graph) {
  RemoveDeadNodes(graph);
  std::set<std::string> needed, bound;
  for (const auto& node : graph.nodes) {
    for (const auto& result : node->results) needed.merge(SymbolsOf(*result));
  }
  for (const Value* output : graph.outputs) needed.merge(SymbolsOf(*output));
  const auto uses = graph.CountUses();
  std::vector<bool> stays(graph.inputs.size());
  for (size_t i = 0; i < stays.size(); ++i) {
    stays[i] = uses.count(graph.inputs[i].get()) != 0;
    if (stays[i]) bound.merge(SymbolsOf(*graph.inputs[i]));
  }
  for (size_t i = 0; i < stays.size(); ++i) {
    for (const std::string& symbol : SymbolsOf(*graph.inputs[i])) {
      if (needed.count(symbol) != 0 && bound.insert(symbol).second) stays[i] = true;
    }
  }
  std::vector<std::unique_ptr<Value>> inputs;
  std::vector<std::string> names;
  for (size_t i = 0; i < stays.size(); ++i) {
    if (!stays[i]) continue;
    names.push_back(graph.InputName(i));
    inputs.push_back(std::move(graph.inputs[i]));
  }
  graph.inputs = std::move(inputs);
  graph.input_names = std::move(names);
  std::erase_if(graph.symbols,
                [&](const DimSymbol& symbol) { return bound.count(symbol.name) == 0; });
}

namespace {

// One of the values that cross from a shard: columns of one of its outputs, or all of that.
struct Crossing {
  std::string value, output;
  TensorType output_type;
  int64_t first_column = -1;  // -1: all of the output
};

class ShardBuilder {
 public:
  ShardBuilder(const Graph& graph, size_t number)
      : shard_(graph.Clone()), builder_(*shard_), number_(number), values_(ValuesByName(*shard_)) {
    shard_->name += fmt::format("_shard_{}", number);
  }

  void Hold(const TablePart& part) {
    std::map<std::string, Value*> crossing;
    if (!part.is_whole()) CutRows(part);
    for (const std::string& name : part.seam.crossing) {
      const auto masked = masked_.find(name);
      crossing_.emplace_back(name, masked == masked_.end() ? values_.at(name) : masked->second);
    }
  }

  // The shard's graph; `crossings` tells where the values are.
  std::unique_ptr<Graph> Finish(std::vector<Crossing>& crossings) {
    shard_->outputs.clear();
    shard_->output_names.clear();
    std::vector<std::pair<std::string, std::vector<size_t>>>
        groups;  // of values that fit side by side
    for (size_t i = 0; i < crossing_.size(); ++i) {
      const std::string key = KeyOf(crossing_[i].second->type, i);
      const auto group =
          std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == key; });
      if (group == groups.end())
        groups.emplace_back(key, std::vector<size_t>{i});
      else
        group->second.push_back(i);
    }
    for (const auto& [key, members] : groups) AddOutput(members, crossings);
    SortNodes(*shard_);
    KeepWhatIsRead(*shard_);
    return std::move(shard_);
  }

 private:
  // Leaves the part's rows in the constants, and zeros of what ids choose of the others. Adding
  // -0.0 changes no float, and 0 no integer.
  void CutRows(const TablePart& part) {
    for (const std::string& name : part.constants) CutConstant(*values_.at(name)->producer, part);
    std::map<const Value*, Value*> is_here;
    for (const auto& node : std::vector<Node*>(LookUpsOf(part))) {
      Value* ids = node->operands[1];
      const auto [place, is_new] = is_here.emplace(ids, nullptr);
      if (is_new) place->second = IsHere(ids, part);
      node->operands[1] = LocalIds(ids, place->second, part);
    }
    for (const TableSeam::PartialRows& partial : part.seam.partial)
      Mask(values_.at(partial.rows), is_here.at(values_.at(partial.ids)));
  }

  std::vector<Node*> LookUpsOf(const TablePart& part) {
    std::vector<Node*> found;
    for (const auto& node : shard_->nodes) {
      const bool reads =
          node->kind == OpKind::kGather &&
          std::any_of(part.constants.begin(), part.constants.end(), [&](const std::string& name) {
            return node->operand(0) == values_.at(name);
          });
      if (reads) found.push_back(node.get());
    }
    return found;
  }

  void CutConstant(Node& constant, const TablePart& part) {
    const Value* whole = constant.result();
    const TensorData* data = StoredData(whole);
    FUSEC_CHECK(data != nullptr, "a table without data: " + whole->name);
    const int64_t row_bytes = static_cast<int64_t>(data->byte_count()) / part.rows;
    std::vector<int64_t> dims = data->dims();
    dims[0] = part.end_row - part.first_row;
    Recipe recipe;
    Value* rows = recipe.Slice(recipe.Use(whole), 0, part.first_row, part.end_row);
    const TensorData cut(data->dtype(), std::move(dims), std::make_shared<TensorData>(*data),
                         data->bytes() + part.first_row * row_bytes);
    MadeConstant made = recipe.Finish(rows, cut);
    constant.results[0]->type.shape[0] = part.end_row - part.first_row;
    constant.constant = std::move(made.data);
    constant.constant_hash = constant.constant.Hash();
    constant.derivation = std::move(made.derivation);
  }

  Value* Number(int64_t value, const Value* ids) {
    return builder_.Constant(TensorData::From<int64_t>(ids->type.dtype, {}, {value}));
  }
  // Row numbers; negative ids count from the end.
  Value* RowsOf(Value* ids, const TablePart& part) {
    Value*& rows = rows_[{ids, part.table}];
    if (rows == nullptr) {
      Value* from_end = builder_.Make(OpKind::kAdd, {ids, Number(part.rows, ids)});
      Value* is_negative = builder_.Make(OpKind::kLess, {ids, Number(0, ids)});
      rows = builder_.Make(OpKind::kWhere, {is_negative, from_end, ids}, {}, ids->name + "_row");
    }
    return rows;
  }
  // The first part has all that is below its end, and the last all from its first row on.
  Value* IsHere(Value* ids, const TablePart& part) {
    Value* rows = RowsOf(ids, part);
    Value* here = nullptr;
    if (part.end_row < part.rows)
      here = builder_.Make(OpKind::kLess, {rows, Number(part.end_row, ids)});
    if (part.first_row > 0) {
      Value* from = builder_.Make(OpKind::kGreaterOrEqual, {rows, Number(part.first_row, ids)});
      here = here ? builder_.Make(OpKind::kAnd, {from, here}) : from;
    }
    return here;
  }
  // Those of rows before the whole table are far below the part's, where an id cannot count from
  // its end.
  Value* LocalIds(Value* ids, Value* is_here, const TablePart& part) {
    const int64_t shift = part.first_row == 0 ? part.rows : part.first_row;
    Value* rows = RowsOf(ids, part);
    Value* shifted = builder_.Make(OpKind::kSub, {rows, Number(shift, ids)});
    if (part.first_row == 0) {
      Value* is_outside = builder_.Make(OpKind::kLess, {rows, Number(0, ids)});
      shifted = builder_.Make(OpKind::kWhere, {is_outside, shifted, rows});
    }
    return builder_.Make(OpKind::kWhere, {is_here, shifted, Number(0, ids)}, {},
                         ids->name + "_here");
  }

  void Mask(Value* rows, Value* is_here) {
    const TensorType& type = rows->type;
    Shape shape = is_here->type.shape;
    shape.resize(type.shape.size(), 1);
    if (shape != is_here->type.shape)
      is_here = builder_.Make(OpKind::kReshape, {is_here}, {{"shape", Exprs(shape)}});
    Value* zero = builder_.Scalar(type.dtype, IsFloat(type.dtype) ? -0.0 : 0.0);
    Value* masked = builder_.Make(OpKind::kWhere, {is_here, rows, zero}, {}, rows->name + "_here");
    masked_[rows->name] = masked;
    for (const auto& node : shard_->nodes) {
      if (node.get() != masked->producer)
        std::replace(node->operands.begin(), node->operands.end(), rows, masked);
    }
  }

  static std::string KeyOf(const TensorType& type, size_t number) {
    if (type.rank() == 0 || !type.shape.back().AsConstant()) return fmt::format("alone {}", number);
    TensorType leading = type;
    leading.shape.back() = 0;
    return leading.ToString();
  }

  void AddOutput(ArrayRef<size_t> members, std::vector<Crossing>& crossings) {
    ValueList parts;
    for (const size_t member : members) parts.push_back(crossing_[member].second);
    const size_t count = shard_->outputs.size();
    const std::string name = fmt::format("rows of shard {}{}", number_,
                                         count == 0 ? "" : fmt::format(" ({})", count + 1));
    Value* output = parts.front();
    if (parts.size() > 1) {
      const int64_t axis = output->type.rank() - 1;
      output = builder_.Make(OpKind::kConcat, parts, {{"axis", axis}},
                             fmt::format("rows_of_shard_{}", number_));
    }
    int64_t column = 0;
    for (const size_t member : members) {
      const Value* part = crossing_[member].second;
      crossings.push_back(
          {crossing_[member].first, name, output->type, parts.size() > 1 ? column : -1});
      if (parts.size() > 1) column += *part->type.shape.back().AsConstant();
    }
    shard_->outputs.push_back(output);
    shard_->output_names.push_back(name);
  }

  std::unique_ptr<Graph> shard_;
  Builder builder_;
  const size_t number_;
  const std::map<std::string, Value*> values_;
  std::map<std::pair<const Value*, std::string>, Value*> rows_;
  std::map<std::string, Value*> masked_;
  std::vector<std::pair<std::string, Value*>> crossing_;  // by the name in the whole graph
};

// Puts what crosses in the place of what computed it.
class DenseBuilder {
 public:
  explicit DenseBuilder(const Graph& graph)
      : dense_(graph.Clone()), builder_(*dense_, 0), values_(ValuesByName(*dense_)) {
    dense_->name += "_dense";
    if (dense_->input_names.empty()) {
      for (const auto& input : dense_->inputs) dense_->input_names.push_back(input->name);
    }
  }

  void Take(ArrayRef<Crossing> crossings) {
    for (const Crossing& crossing : crossings) {
      Value* value = ColumnsOf(crossing);
      Value*& sum = sums_[crossing.value];
      sum = sum == nullptr ? value
                           : builder_.Make(OpKind::kAdd, {sum, value}, {}, crossing.value + "_sum");
    }
  }

  std::unique_ptr<Graph> Finish() {
    for (const auto& [name, sum] : sums_) dense_->ReplaceAllUses(values_.at(name), sum);
    KeepWhatIsRead(*dense_);
    return std::move(dense_);
  }

 private:
  Value* ColumnsOf(const Crossing& crossing) {
    Value*& input = inputs_[crossing.output];
    if (input == nullptr) {
      input =
          dense_->AddInput(dense_->UniqueName(Identifier(crossing.output)), crossing.output_type);
      dense_->input_names.push_back(crossing.output);
    }
    if (crossing.first_column < 0) return input;
    const Shape& wanted = values_.at(crossing.value)->type.shape;
    Exprs starts(wanted.size(), 0);
    starts.back() = crossing.first_column;
    return builder_.Make(OpKind::kSlice, {input},
                         {{"starts", starts},
                          {"steps", std::vector<int64_t>(wanted.size(), 1)},
                          {"shape", Exprs(wanted)}},
                         crossing.value + "_crossed");
  }
  static std::string Identifier(const std::string& name) {
    std::string identifier;
    for (const char c : name) {
      if (std::isalnum(static_cast<unsigned char>(c)))
        identifier += c;
      else if (c == ' ')
        identifier += '_';
    }
    return identifier;
  }

  std::unique_ptr<Graph> dense_;
  Builder builder_;
  const std::map<std::string, Value*> values_;
  std::map<std::string, Value*> inputs_;  // by output of a shard
  std::map<std::string, Value*> sums_;    // by value that crosses
};

}  // namespace

Result<ShardedGraph> TakeApart(const Graph& graph, ArrayRef<std::vector<TablePart>> shards) {
  ShardedGraph result;
  const LineageRecorder lineage(graph);
  DenseBuilder dense(graph);
  for (size_t i = 0; i < shards.size(); ++i) {
    ShardBuilder shard(graph, i);
    for (const TablePart& part : shards[i]) shard.Hold(part);
    std::vector<Crossing> crossings;
    result.shards.push_back(shard.Finish(crossings));
    lineage.Record(*result.shards.back(), "shard");
    FUSEC_TRY(Verify(*result.shards.back()));
    dense.Take(crossings);
  }
  result.dense = dense.Finish();
  lineage.Record(*result.dense, "shard");
  FUSEC_TRY(Verify(*result.dense));
  return result;
}

}  // namespace fusec
