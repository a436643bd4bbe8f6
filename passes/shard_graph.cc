#include "passes/shard_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

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

// Some columns of an output of a shard, or the whole output.
struct Columns {
  size_t shard = 0;
  std::string output;
  TensorType output_type;
  int64_t first = -1, count = 0;  // `first` is -1 for the whole output
};

// A value that crosses from a shard, in one or two pieces (TypesOnWire).
struct Crossing {
  std::string value;
  std::vector<Columns> pieces;
  int64_t first_column = -1;  // the first column of the value that crosses; -1 if all columns do
};

// Encodes a value for the wire, and decodes it.
class WireCoder {
 public:
  WireCoder(Builder& builder, Wire wire) : builder_(builder), wire_(wire) {}

  ValueList Encoded(Value* value) {
    const auto types = TypesOnWire(value->type, wire_);
    if (types.size() == 1) return {Cast(value, types[0].dtype)};
    const int64_t last = value->type.rank() - 1;
    Value* magnitudes = builder_.Make(OpKind::kAbs, {value});
    Value* greatest =
        builder_.Make(OpKind::kReduceMax, {magnitudes},
                      {{"axes", std::vector<int64_t>{last}}, {"keepdims", int64_t{1}}});
    Value* scale =
        builder_.Make(OpKind::kMul, {greatest, builder_.Scalar(Dtype::kF32, 1.0 / kGreatestCode)},
                      {}, value->name + "_scale");
    Value* is_zero = builder_.Make(OpKind::kEqual, {scale, builder_.Scalar(Dtype::kF32, 0)});
    Value* divisor =
        builder_.Make(OpKind::kWhere, {is_zero, builder_.Scalar(Dtype::kF32, 1), scale});
    Value* quotient = builder_.Make(OpKind::kDiv, {value, divisor});
    Value* codes = Cast(builder_.Make(OpKind::kRound, {quotient}), Dtype::kI8);
    return {codes, scale};
  }
  Value* Decoded(ArrayRef<Value*> pieces, Dtype dtype) {
    Value* value = Cast(pieces[0], dtype);
    return pieces.size() == 1 ? value : builder_.Make(OpKind::kMul, {value, pieces[1]});
  }

 private:
  static constexpr double kGreatestCode = 127;
  Value* Cast(Value* value, Dtype dtype) {
    return value->type.dtype == dtype ? value
                                      : builder_.Make(OpKind::kCast, {value}, {{"to", dtype}});
  }
  Builder& builder_;
  const Wire wire_;
};

class ShardBuilder {
 public:
  ShardBuilder(const Graph& graph, size_t number, Wire wire)
      : shard_(graph.Clone()),
        builder_(*shard_),
        coder_(builder_, wire),
        number_(number),
        values_(ValuesByName(*shard_)) {
    shard_->name += fmt::format("_shard_{}", number);
  }

  void Hold(const TablePart& part) {
    if (!part.has_all_rows()) CutRows(part);
    if (!part.has_all_columns()) CutColumns(part);
    for (const std::string& name : part.seam.crossing) {
      const auto masked = masked_.find(name);
      crossing_.push_back({name, masked == masked_.end() ? values_.at(name) : masked->second,
                           part.has_all_columns() ? -1 : part.first_column});
    }
  }

  // Returns the shard's graph, and appends to `crossings` where its outputs hold each value.
  std::unique_ptr<Graph> Finish(std::vector<Crossing>& crossings) {
    shard_->outputs.clear();
    shard_->output_names.clear();
    shard_->run_time_sizes.clear();  // only the dense part has them
    std::vector<Piece> pieces;
    for (const Leaving& leaving : crossing_) {
      for (Value* piece : coder_.Encoded(leaving.value))
        pieces.push_back({crossings.size(), piece});
      crossings.push_back({leaving.name, {}, leaving.first_column});
    }
    std::vector<std::pair<std::string, std::vector<Piece>>> groups;  // pieces that fit side by side
    for (size_t i = 0; i < pieces.size(); ++i) {
      const std::string key = KeyOf(pieces[i].value->type, i);
      const auto group = std::find_if(groups.begin(), groups.end(),
                                      [&](const auto& other) { return other.first == key; });
      if (group == groups.end())
        groups.push_back({key, {pieces[i]}});
      else
        group->second.push_back(pieces[i]);
    }
    for (const auto& [key, members] : groups) AddOutput(members, crossings);
    SortNodes(*shard_);
    KeepWhatIsRead(*shard_);
    return std::move(shard_);
  }

 private:
  struct Piece {
    size_t crossing = 0;
    Value* value = nullptr;
  };
  struct Leaving {
    std::string name;  // in the whole graph
    Value* value = nullptr;
    int64_t first_column = -1;  // see Crossing
  };

  // Cuts the constants to the part's rows, and makes look-ups of other rows give zeros. Floats get
  // -0.0, since adding -0.0 changes no float; integers get 0.
  void CutRows(const TablePart& part) {
    for (const std::string& name : part.constants) CutConstant(*values_.at(name)->producer, part);
    std::map<const Value*, Value*> is_here;
    for (Node* node : LookUpsOf(part)) {
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

  // Cuts the table, and all values that are computed from it before the seam, to the part's
  // columns.
  void CutColumns(const TablePart& part) {
    const int64_t width = part.end_column - part.first_column;
    Node& constant = *values_.at(part.constants.front())->producer;
    const Value* whole = constant.result();
    const TensorData& data = DataOf(whole);
    const int64_t element = DtypeBytes(data.dtype()), columns = data.dims().back();
    TensorData cut(data.dtype(), {part.rows, width});
    for (int64_t row = 0; row < part.rows; ++row)
      std::memcpy(cut.mutable_bytes() + row * width * element,
                  data.bytes() + (row * columns + part.first_column) * element, width * element);
    Recipe recipe;
    Value* slice = recipe.Slice(recipe.Use(whole), 1, part.first_column, part.end_column);
    SetConstant(constant, recipe.Finish(slice, std::move(cut)));
    for (const std::string& name : part.seam.by_columns) {
      Value* value = values_.at(name);
      value->type.shape.back() = width;
      Attributes& attributes = value->producer->attributes;
      if (attributes.count("shape") != 0) attributes["shape"] = Exprs(value->type.shape);
    }
  }

  static const TensorData& DataOf(const Value* table) {
    const TensorData* data = StoredData(table);
    FUSEC_CHECK(data != nullptr, "a table without data: " + table->name);
    return *data;
  }

  static void SetConstant(Node& constant, MadeConstant made) {
    constant.constant = std::move(made.data);
    constant.results[0]->type.shape =
        Shape(constant.constant.dims().begin(), constant.constant.dims().end());
    constant.constant_hash = constant.constant.Hash();
    constant.derivation = std::move(made.derivation);
  }

  void CutConstant(Node& constant, const TablePart& part) {
    const Value* whole = constant.result();
    const TensorData* data = &DataOf(whole);
    const int64_t row_bytes = static_cast<int64_t>(data->byte_count()) / part.rows;
    std::vector<int64_t> dims = data->dims();
    dims[0] = part.end_row - part.first_row;
    Recipe recipe;
    Value* rows = recipe.Slice(recipe.Use(whole), 0, part.first_row, part.end_row);
    const TensorData cut(data->dtype(), std::move(dims), std::make_shared<TensorData>(*data),
                         data->bytes() + part.first_row * row_bytes);
    SetConstant(constant, recipe.Finish(rows, cut));
  }

  Value* Number(int64_t value, const Value* ids) {
    return builder_.Constant(TensorData::From<int64_t>(ids->type.dtype, {}, {value}));
  }
  // The row numbers of ids; negative ids count from the end of the table.
  Value* RowsOf(Value* ids, const TablePart& part) {
    Value*& rows = rows_[{ids, part.table}];
    if (rows == nullptr) {
      Value* from_end = builder_.Make(OpKind::kAdd, {ids, Number(part.rows, ids)});
      Value* is_negative = builder_.Make(OpKind::kLess, {ids, Number(0, ids)});
      rows = builder_.Make(OpKind::kWhere, {is_negative, from_end, ids}, {}, ids->name + "_row");
    }
    return rows;
  }
  // Whether each id belongs to the part. Ids before the table belong to the first part, ids behind
  // it to the last.
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
  // Ids relative to the part; 0 for ids of other parts. Ids before the whole table stay so far
  // below 0 that the part does not read them as counted from its end, so that they fail the run.
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

  // The pieces of one value are added in order, in separate outputs: their dtypes differ, and so do
  // their groups.
  void AddOutput(ArrayRef<Piece> members, std::vector<Crossing>& crossings) {
    ValueList parts;
    for (const Piece& member : members) parts.push_back(member.value);
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
    for (const Piece& member : members) {
      std::vector<Columns>& pieces = crossings[member.crossing].pieces;
      if (parts.size() == 1) {
        pieces.push_back({number_, name, output->type});
        break;
      }
      const int64_t columns = *member.value->type.shape.back().AsConstant();
      pieces.push_back({number_, name, output->type, column, columns});
      column += columns;
    }
    shard_->outputs.push_back(output);
    shard_->output_names.push_back(name);
  }

  std::unique_ptr<Graph> shard_;
  Builder builder_;
  WireCoder coder_;
  const size_t number_;
  const std::map<std::string, Value*> values_;
  std::map<std::pair<const Value*, std::string>, Value*> rows_;
  std::map<std::string, Value*> masked_;
  std::vector<Leaving> crossing_;
};

// Builds the dense part: replaces the nodes before the seams by inputs that receive the values that
// cross.
class DenseBuilder {
 public:
  DenseBuilder(const Graph& graph, Wire wire)
      : dense_(graph.Clone()),
        builder_(*dense_, 0),
        coder_(builder_, wire),
        values_(ValuesByName(*dense_)) {
    dense_->name += "_dense";
    if (dense_->input_names.empty()) {
      for (const auto& input : dense_->inputs) dense_->input_names.push_back(input->name);
    }
  }

  void Take(ArrayRef<Crossing> crossings) {
    for (const Crossing& crossing : crossings) {
      ValueList pieces;
      for (const Columns& piece : crossing.pieces)
        pieces.push_back(ColumnsOf(piece, crossing.value));
      Value* value = coder_.Decoded(pieces, values_.at(crossing.value)->type.dtype);
      if (crossing.first_column >= 0) {
        columns_[crossing.value][crossing.first_column] = value;
        continue;
      }
      Value*& sum = sums_[crossing.value];
      sum = sum == nullptr ? value
                           : builder_.Make(OpKind::kAdd, {sum, value}, {}, crossing.value + "_sum");
    }
  }

  std::unique_ptr<Graph> Finish() {
    for (const auto& [name, sum] : sums_) dense_->ReplaceAllUses(values_.at(name), sum);
    for (const auto& [name, by_column] : columns_) {
      ValueList parts;
      for (const auto& [first, part] : by_column) parts.push_back(part);
      const int64_t axis = parts.front()->type.rank() - 1;
      Value* joined =
          builder_.Make(OpKind::kConcat, parts, {{"axis", axis}}, name + "_of_all_columns");
      dense_->ReplaceAllUses(values_.at(name), joined);
    }
    KeepWhatIsRead(*dense_);
    return std::move(dense_);
  }

 private:
  Value* ColumnsOf(const Columns& columns, const std::string& value) {
    Value*& input = inputs_[columns.output];
    if (input == nullptr) {
      input = dense_->AddInput(dense_->UniqueName(fmt::format("rows_of_shard_{}", columns.shard)),
                               columns.output_type);
      dense_->input_names.push_back(columns.output);
    }
    if (columns.first < 0) return input;
    return Sliced(builder_, input, input->type.rank() - 1, columns.first,
                  columns.first + columns.count, value + "_crossed");
  }
  std::unique_ptr<Graph> dense_;
  Builder builder_;
  WireCoder coder_;
  const std::map<std::string, Value*> values_;
  std::map<std::string, Value*> inputs_;  // by output of a shard
  std::map<std::string, Value*> sums_;    // by value that crosses: the sum over the parts so far
  // By value that crosses in ranges of columns, and by the first column: the range.
  std::map<std::string, std::map<int64_t, Value*>> columns_;
};

constexpr const char* kWireNames[] = {"f32", "f16", "bf16", "int8"};

}  // namespace

const char* WireName(Wire wire) { return kWireNames[static_cast<int>(wire)]; }

std::optional<Wire> ParseWire(std::string_view name) {
  for (int i = 0; i < static_cast<int>(std::size(kWireNames)); ++i) {
    if (name == kWireNames[i]) return static_cast<Wire>(i);
  }
  return std::nullopt;
}

SmallVector<TensorType, 2> TypesOnWire(const TensorType& type, Wire wire) {
  if (type.dtype != Dtype::kF32 || wire == Wire::kExact) return {type};
  TensorType elements = type;
  if (wire == Wire::kInt8 && type.rank() > 0) {
    TensorType scales = type;
    elements.dtype = Dtype::kI8;
    scales.shape.back() = 1;
    return {elements, scales};
  }
  elements.dtype = wire == Wire::kBF16 ? Dtype::kBF16 : Dtype::kF16;
  return {elements};
}

Result<ShardedGraph> TakeApart(const Graph& graph, ArrayRef<std::vector<TablePart>> shards,
                               Wire wire) {
  ShardedGraph result;
  const LineageRecorder lineage(graph);
  DenseBuilder dense(graph, wire);
  for (size_t i = 0; i < shards.size(); ++i) {
    ShardBuilder shard(graph, i, wire);
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
