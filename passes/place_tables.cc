#include "passes/place_tables.h"

#include <algorithm>

#include "compiler/ir/host_table.h"
#include "passes/embedding_tables.h"

namespace fusec {

Result<bool> PlaceTables(Graph& graph, const PassOptions& options, PassReport&) {
  if (options.table_placement.empty()) return false;
  const std::vector<EmbeddingTable> tables = EmbeddingTables(graph, options.constant_names);
  for (const TablePlacement& wanted : options.table_placement) {
    const bool is_used =
        std::any_of(tables.begin(), tables.end(),
                    [&](const EmbeddingTable& table) { return table.Matches(wanted.pattern); });
    if (!is_used)
      return NoSuchTable(
          "--table-placement " + wanted.pattern + (wanted.on_host ? "=host" : "=device"),
          wanted.pattern, graph, options.constant_names);
  }
  bool changed = false;
  for (const EmbeddingTable& table : tables) {
    if (!LiesOnHost(options.table_placement, table.name)) continue;
    table.constant->attributes[kHostTable] = table.name;
    changed = true;
  }
  return changed;
}

}  // namespace fusec
