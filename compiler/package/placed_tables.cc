#include "compiler/package/placed_tables.h"

namespace fusec {

using Json = nlohmann::ordered_json;

Json PlacedTablesJson(ArrayRef<PlacedTable> tables) {
  Json list = Json::array();
  for (const PlacedTable& table : tables) {
    list.push_back({{"table", table.table}, {"placement", "host"}, {"bytes", table.bytes}});
    if (table.cached_rows > 0) list.back()["cached_rows"] = table.cached_rows;
  }
  return list;
}

std::vector<PlacedTable> PlacedTablesOf(const Json& manifest) {
  std::vector<PlacedTable> tables;
  for (const Json& table : manifest.value("table_placement", Json::array()))
    tables.push_back({table.at("table"), table.at("bytes"), table.value("cached_rows", 0)});
  return tables;
}

}  // namespace fusec
