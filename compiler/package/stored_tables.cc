#include "compiler/package/stored_tables.h"

namespace fusec {

using Json = nlohmann::ordered_json;

Json StoredTablesJson(ArrayRef<StoredTable> tables) {
  Json list = Json::array();
  for (const StoredTable& table : tables) {
    list.push_back({{"table", table.table},
                    {"storage", table.storage},
                    {"rows", table.rows},
                    {"columns", table.columns},
                    {"bytes_before", table.bytes_before},
                    {"bytes", table.bytes}});
  }
  return list;
}

std::vector<StoredTable> StoredTablesOf(const Json& manifest) {
  std::vector<StoredTable> tables;
  for (const Json& table : manifest.value("table_storage", Json::array())) {
    tables.push_back({table.at("table"), table.at("storage"), table.at("rows"), table.at("columns"),
                      table.at("bytes_before"), table.at("bytes")});
  }
  return tables;
}

}  // namespace fusec
