#include "passes/quantize_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/ir/host_table.h"
#include "passes/embedding_tables.h"
#include "passes/graph_edit.h"
#include "passes/recipe.h"

namespace fusec {

namespace {

// Adds the ops that compute the elements of looked-up rows.
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
    return Sliced(builder_, factors, factors->type.rank() - 1, column, column + 1,
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

// The smallest f32 that is not below `value`, an f64 tensor, as StoreRows computes it.
Value* RoundedUp(Recipe& recipe, Value* value) {
  Value* nearest = recipe.Cast(recipe.Cast(value, Dtype::kF32), Dtype::kF64);
  // The step is between 0.5 and 1.5 units in the last place, so the sum is rounded to the next f32.
  Value* step =
      recipe.Make(OpKind::kMax, {recipe.Mul(nearest, recipe.Number(std::ldexp(1.25, -24))),
                                 recipe.Number(std::ldexp(0.75, -149))});
  Value* next = recipe.Cast(recipe.Cast(recipe.Add(nearest, step), Dtype::kF32), Dtype::kF64);
  return recipe.Where(recipe.Make(OpKind::kLess, {nearest, value}), next, nearest);
}

struct MadeRows {
  MadeConstant rows;
  std::optional<MadeConstant> factors;
};

// Records how StoreRows computes `stored` from a table (stored_rows.h has the formulas).
MadeRows HowStored(const Value* table, RowStorage storage, StoredRows stored) {
  Recipe of_rows, of_factors;
  if (!stored.factors)
    return {of_rows.Finish(of_rows.Use(table), std::move(stored.rows)), std::nullopt};
  const bool is_fp8 = storage == RowStorage::kFp8;
  const double greatest = is_fp8 ? 448 : storage == RowStorage::kInt4 ? 15 : 255;
  const auto bias = [&](Recipe& recipe, Value* x) {
    return recipe.Cast(
        recipe.Cast(recipe.Reduce(OpKind::kReduceMin, x, 1, /*keepdims=*/true), Dtype::kF32),
        Dtype::kF64);
  };
  const auto scale = [&](Recipe& recipe, Value* x) {
    Value* most = is_fp8 ? recipe.Make(OpKind::kAbs, {x}) : x;
    most = recipe.Reduce(OpKind::kReduceMax, most, 1, /*keepdims=*/true);
    if (!is_fp8) most = recipe.Sub(most, bias(recipe, x));
    return RoundedUp(recipe, recipe.Div(most, recipe.Number(greatest)));
  };
  Value* x = of_rows.Exact(table);
  Value* divisor = scale(of_rows, x);
  Value* zero = of_rows.Number(0);
  Value* codes = of_rows.Div(is_fp8 ? x : of_rows.Sub(x, bias(of_rows, x)), divisor);
  if (is_fp8) {
    codes = of_rows.E4M3Codes(codes);
  } else {
    codes = of_rows.Make(OpKind::kMax, {of_rows.Make(OpKind::kRound, {codes}), zero});
    codes = of_rows.Make(OpKind::kMin, {codes, of_rows.Number(greatest)});
  }
  codes = of_rows.Where(of_rows.Make(OpKind::kGreater, {divisor, zero}), codes, zero);
  if (storage == RowStorage::kInt4) codes = of_rows.Int4Pairs(codes);
  x = of_factors.Exact(table);
  ValueList factors = {scale(of_factors, x)};
  if (!is_fp8) factors.push_back(bias(of_factors, x));
  return {of_rows.Finish(codes, std::move(stored.rows)),
          of_factors.Finish(of_factors.Concat(factors, 1), *std::move(stored.factors))};
}

// Replaces the table and all look-ups in it; the old nodes are then dead.
Result<StoredTable> Store(Graph& graph, const EmbeddingTable& table, RowStorage storage) {
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
  if (stored->factors) record.bytes += static_cast<int64_t>(stored->factors->byte_count());
  MadeRows made = HowStored(old, storage, *std::move(stored));
  Value* factors = nullptr;
  if (made.factors)
    factors = AddConstant(constants, *std::move(made.factors), old->name + "_factors");
  Value* rows = AddConstant(constants, std::move(made.rows), old->name);
  std::swap(rows->name, old->name);  // keeps the model's name
  for (Value* part : {rows, factors}) {
    if (part && IsUpdatable(old)) part->producer->attributes[kUpdatable] = part->name;
    if (part && IsHostTable(old)) part->producer->attributes[kHostTable] = table.name;
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
  const std::vector<EmbeddingTable> tables = EmbeddingTables(graph, options.constant_names);
  for (const TableStorage& wanted : options.table_storage) {
    const bool is_used =
        std::any_of(tables.begin(), tables.end(),
                    [&](const EmbeddingTable& table) { return table.Matches(wanted.pattern); });
    if (is_used) continue;
    return NoSuchTable(
        fmt::format("--table-storage {}={}", wanted.pattern, RowStorageName(wanted.storage)),
        wanted.pattern, graph, options.constant_names);
  }
  bool changed = false;
  for (const EmbeddingTable& table : tables) {
    const auto wanted =
        std::find_if(options.table_storage.rbegin(), options.table_storage.rend(),
                     [&](const TableStorage& one) { return table.Matches(one.pattern); });
    if (wanted == options.table_storage.rend()) continue;
    FUSEC_ASSIGN(StoredTable stored, Store(graph, table, wanted->storage));
    report.stored_tables.push_back(std::move(stored));
    table.constant->constant = TensorData();  // frees the memory at once, since tables are big
    changed = true;
  }
  if (changed) RemoveDeadNodes(graph);
  return changed;
}

}  // namespace fusec
