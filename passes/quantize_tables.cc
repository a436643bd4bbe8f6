#include "passes/quantize_tables.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "compiler/support/terminal.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// A table and the nodes that look its rows up.
struct Table {
  Node* constant = nullptr;
  std::string name;  // the model's
  std::vector<Node*> gathers;
};

// The gathers that read `value`, directly or through identities; false if anything else does.
bool CollectGathers(const Graph& graph, const ReaderMap& readers, const Value* value,
                    std::vector<Node*>& gathers) {
  if (IsOutput(graph, value)) return false;
  const auto found = readers.find(value);
  if (found == readers.end()) return true;
  for (Node* reader : found->second) {
    if (reader->kind == OpKind::kIdentity) {
      if (!CollectGathers(graph, readers, reader->result(), gathers)) return false;
      continue;
    }
    const bool looks_up = reader->kind == OpKind::kGather && reader->Int("axis") == 0 &&
                          reader->operand(0) == value && reader->operand(1) != value;
    if (!looks_up) return false;
    gathers.push_back(reader);
  }
  return true;
}

std::vector<Table> TablesOf(const Graph& graph, const PassOptions& options) {
  const ReaderMap readers = Readers(graph);
  std::vector<Table> tables;
  for (const auto& node : graph.nodes) {
    const TensorData* data = node->kind == OpKind::kConstant ? StoredData(node->result()) : nullptr;
    if (data == nullptr || !IsFloat(data->dtype()) || data->dims().size() != 2 ||
        data->element_count() == 0)
      continue;
    Table table{node.get(), node->result()->name, {}};
    const auto named = options.constant_names.find(table.name);
    if (named != options.constant_names.end()) table.name = named->second;
    if (CollectGathers(graph, readers, node->result(), table.gathers) && !table.gathers.empty())
      tables.push_back(std::move(table));
  }
  return tables;
}

bool Matches(const TableStorage& wanted, const Table& table) {
  return fnmatch(wanted.pattern.c_str(), table.name.c_str(), 0) == 0;
}

tl::unexpected<Error> NoSuchTable(const TableStorage& wanted, ArrayRef<Table> tables) {
  constexpr size_t kMostListed = 30;
  std::vector<std::string> listed;
  for (const Table& table : tables) {
    if (listed.size() < kMostListed)
      listed.push_back(table.name + " " + table.constant->result()->type.ToString());
  }
  if (tables.size() > listed.size())
    listed.push_back(fmt::format("and {} more", tables.size() - listed.size()));
  return Fail(
      ErrorKind::kUsage,
      fmt::format("--table-storage {}={}: no embedding table has such a name; {}", wanted.pattern,
                  RowStorageName(wanted.storage),
                  listed.empty() ? "the model has none (a table is a constant of floats [rows, "
                                   "columns] that only gathers along its rows read)"
                                 : "there are " + Join(listed, ", ")));
}

// Writes the elements of looked-up rows down.
class Dequantizer {
 public:
  Dequantizer(const Node& gather, Builder& builder)
      : gather_(gather), builder_(builder), name_(gather.result()->name) {}

  Value* Rows(RowStorage storage, Value* rows, Value* factors, int64_t columns) {
    Value* codes = Gather(rows, "codes");
    const Dtype dtype = gather_.result()->type.dtype;
    if (storage == RowStorage::kInt4) {
      codes =
          builder_.Make(OpKind::kUnpackInt4, {codes}, {{"columns", columns}}, name_ + "_unpacked");
    }
    Value* value = storage == RowStorage::kFp8
                       ? builder_.Make(OpKind::kFromE4M3, {codes}, {}, name_ + "_quotients")
                       : Cast(codes, factors ? Dtype::kF32 : dtype);
    if (factors) {
      Value* looked_up = Gather(factors, "factors");
      const bool has_bias = factors->type.shape.back().IsConstant(2);
      Value* scale = has_bias ? Column(looked_up, 0, "scale") : looked_up;
      value = builder_.Make(OpKind::kMul, {value, scale}, {}, name_ + "_scaled");
      if (has_bias) {
        Value* bias = Column(looked_up, 1, "bias");
        value = builder_.Make(OpKind::kAdd, {value, bias}, {}, name_ + "_rows");
      }
    }
    return Cast(value, dtype);
  }

 private:
  Value* Gather(Value* table, const std::string& hint) {
    return builder_.Make(OpKind::kGather, {table, gather_.operand(1)}, gather_.attributes,
                         name_ + "_" + hint);
  }
  Value* Cast(Value* value, Dtype dtype) {
    if (value->type.dtype == dtype) return value;
    return builder_.Make(OpKind::kCast, {value}, {{"to", dtype}},
                         name_ + "_" + std::string(DtypeName(dtype)));
  }
  Value* Column(Value* factors, int64_t column, const std::string& hint) {
    Shape shape = factors->type.shape;
    shape.back() = 1;
    Exprs starts(shape.size(), 0);
    starts.back() = column;
    const std::vector<int64_t> steps(shape.size(), 1);
    return builder_.Make(OpKind::kSlice, {factors},
                         {{"starts", starts}, {"steps", steps}, {"shape", shape}},
                         name_ + "_" + hint);
  }

  const Node& gather_;
  Builder& builder_;
  const std::string name_;
};

size_t PlaceOf(const Graph& graph, const Node* node) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [&](const auto& other) { return other.get() == node; });
  return static_cast<size_t>(found - graph.nodes.begin());
}

// Replaces the table, and every look-up of it; the old nodes are dead then.
Result<StoredTable> Store(Graph& graph, const Table& table, RowStorage storage) {
  Value* const old = table.constant->result();
  const TensorData& data = table.constant->constant;
  const int64_t columns = data.dims()[1];
  auto stored = StoreRows(data, storage);
  if (!stored) {
    return Fail(stored.error().kind,
                fmt::format("table \"{}\": {}", table.name, stored.error().message));
  }
  StoredTable record{table.name,
                     RowStorageName(storage),
                     data.dims()[0],
                     columns,
                     static_cast<int64_t>(data.byte_count()),
                     static_cast<int64_t>(stored->rows.byte_count())};
  Builder constants(graph, PlaceOf(graph, table.constant));
  constants.set_provenance(table.constant->provenance);
  Value* factors = nullptr;
  if (stored->factors) {
    record.bytes += static_cast<int64_t>(stored->factors->byte_count());
    factors = constants.Constant(*std::move(stored->factors), old->name + "_factors");
  }
  Value* rows = constants.Constant(std::move(stored->rows), old->name);
  std::swap(rows->name, old->name);  // as the model calls it
  for (Value* part : {rows, factors}) {
    if (part && IsUpdatable(old)) part->producer->attributes[kUpdatable] = part->name;
  }
  record.constant = rows->name;
  if (factors) record.factors = factors->name;
  for (Node* gather : table.gathers) {
    Builder builder(graph, PlaceOf(graph, gather));
    builder.set_provenance(gather->provenance);
    Value* value = Dequantizer(*gather, builder).Rows(storage, rows, factors, columns);
    graph.ReplaceAllUses(gather->result(), value);
    std::swap(value->name, gather->result()->name);
  }
  return record;
}

}  // namespace

Result<bool> QuantizeTables(Graph& graph, const PassOptions& options, PassReport& report) {
  if (options.table_storage.empty()) return false;
  const std::vector<Table> tables = TablesOf(graph, options);
  for (const TableStorage& wanted : options.table_storage) {
    if (std::none_of(tables.begin(), tables.end(),
                     [&](const Table& table) { return Matches(wanted, table); }))
      return NoSuchTable(wanted, tables);
  }
  bool changed = false;
  for (const Table& table : tables) {
    const auto wanted = std::find_if(options.table_storage.rbegin(), options.table_storage.rend(),
                                     [&](const TableStorage& one) { return Matches(one, table); });
    if (wanted == options.table_storage.rend()) continue;
    FUSEC_ASSIGN(StoredTable stored, Store(graph, table, wanted->storage));
    report.stored_tables.push_back(std::move(stored));
    table.constant->constant = TensorData();  // at once: tables are big
    changed = true;
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace fusec
