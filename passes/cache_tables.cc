#include "passes/cache_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "compiler/ir/host_table.h"
#include "compiler/support/adt.h"
#include "passes/graph_edit.h"

namespace fusec {

namespace {

// A constant of which a cache holds rows: a table, or the scales and biases of its rows.
struct CachedConstant {
  Value* table;
  std::vector<Node*> gathers;

  int64_t rows() const { return *table->type.shape[0].AsConstant(); }
  int64_t bytes_of_set() const {
    const TensorData& data = table->producer->constant;
    return kBytesOfCacheSet +
           kRowsOfCacheSet * static_cast<int64_t>(data.byte_count()) / std::max<int64_t>(1, rows());
  }
  // The number of sets that hold all rows.
  int64_t most_sets() const { return (rows() + kRowsOfCacheSet - 1) / kRowsOfCacheSet; }
};

std::vector<CachedConstant> HostTables(const Graph& graph) {
  std::vector<CachedConstant> tables;
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kGather || !IsHostTable(node->operand(0)) || node->operand(2))
      continue;
    auto table = std::find_if(tables.begin(), tables.end(), [&](const CachedConstant& other) {
      return other.table == node->operand(0);
    });
    if (table == tables.end()) table = tables.insert(tables.end(), {node->operand(0), {}});
    table->gathers.push_back(node.get());
  }
  return tables;
}

Result<void> CheckRows(ArrayRef<CachedConstant> tables) {
  for (const CachedConstant& table : tables) {
    if (table.rows() <= std::numeric_limits<int32_t>::max()) continue;
    return Fail(ErrorKind::kUsage,
                fmt::format("--table-cache: table \"{}\" has {} rows, a cached one has at most {}",
                            table.table->producer->Get<std::string>(kHostTable), table.rows(),
                            std::numeric_limits<int32_t>::max()));
  }
  return {};
}

// The share of each table's sets that fits into the cache.
Result<double> ShareOf(const TableCache& cache, ArrayRef<CachedConstant> tables) {
  if (cache.percent > 0) return cache.percent / 100;
  int64_t least = 0;
  double all = 0;
  for (const CachedConstant& table : tables) {
    least += table.bytes_of_set();
    all += static_cast<double>(table.most_sets()) * static_cast<double>(table.bytes_of_set());
  }
  if (cache.bytes < least) {
    return Fail(ErrorKind::kUsage,
                fmt::format("--table-cache {}: a set of {} rows of each of the {} constants that "
                            "tables of host memory are stored in takes {} bytes",
                            cache.bytes, kRowsOfCacheSet, tables.size(), least));
  }
  return std::min(1.0, static_cast<double>(cache.bytes) / all);
}

void AddCache(Graph& graph, const CachedConstant& table, int64_t sets) {
  const auto first = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
    return node.get() == table.gathers.front();
  });
  Builder builder(graph, static_cast<size_t>(first - graph.nodes.begin()));
  Value* cache =
      builder.Constant(TensorData::From<int64_t>(Dtype::kI32, {1, kRowCacheElements},
                                                 std::vector<int64_t>(kRowCacheElements, 0)),
                       table.table->name + "_cache");
  cache->producer->attributes[kCachedTable] = table.table->name;
  cache->producer->attributes[kCachedRows] = sets * kRowsOfCacheSet;
  for (Node* gather : table.gathers) gather->operands.push_back(cache);
}

}  // namespace

Result<bool> CacheTables(Graph& graph, const PassOptions& options, PassReport&) {
  if (!options.table_cache) return false;
  const std::vector<CachedConstant> tables = HostTables(graph);
  if (tables.empty()) return false;
  FUSEC_TRY(CheckRows(tables));
  FUSEC_ASSIGN(const double share, ShareOf(*options.table_cache, tables));
  for (const CachedConstant& table : tables) {
    const auto sets = static_cast<int64_t>(share * static_cast<double>(table.most_sets()));
    AddCache(graph, table, std::max<int64_t>(1, sets));
  }
  return true;
}

}  // namespace fusec
