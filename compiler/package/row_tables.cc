#include "compiler/package/row_tables.h"

#include <algorithm>

namespace fusec {

using Json = nlohmann::ordered_json;

Json RowTablesJson(ArrayRef<RowTable> tables,
                   const std::function<int(const std::string&)>& buffer_of) {
  Json list = Json::array();
  for (const RowTable& table : tables) {
    Json& item = list.emplace_back(Json{{"table", table.table},
                                        {"dtype", DtypeName(table.dtype)},
                                        {"rows", table.rows},
                                        {"columns", table.columns}});
    if (!table.fixed.empty()) {
      item["fixed"] = table.fixed;
      continue;
    }
    item["storage"] = table.storage;
    item["constant"] = table.constant;
    item["buffer"] = buffer_of(table.constant);
    if (table.factors.empty()) continue;
    item["factors"] = table.factors;
    item["factors_buffer"] = buffer_of(table.factors);
  }
  return list;
}

std::vector<RowTable> RowTablesOf(const Json& manifest) {
  std::vector<RowTable> tables;
  for (const Json& item : manifest.value("tables", Json::array())) {
    RowTable& table = tables.emplace_back();
    table.table = item.at("table");
    table.dtype = ParseDtype(item.at("dtype").get<std::string>()).value_or(Dtype::kF32);
    table.rows = item.at("rows");
    table.columns = item.at("columns");
    table.storage = item.value("storage", "");
    table.constant = item.value("constant", "");
    table.factors = item.value("factors", "");
    table.fixed = item.value("fixed", "");
  }
  return tables;
}

bool HasReplaceableRows(ArrayRef<RowTable> tables) {
  return std::any_of(tables.begin(), tables.end(),
                     [](const RowTable& table) { return table.fixed.empty(); });
}

}  // namespace fusec
