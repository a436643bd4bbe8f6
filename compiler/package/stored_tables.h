#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/support/adt.h"
#include "passes/stored_rows.h"

namespace fusec {

// The key "table_storage" of a manifest: how an artifact stores tables that --table-storage names.
nlohmann::ordered_json StoredTablesJson(ArrayRef<StoredTable> tables);
// Those of a whole manifest; none if it has no such key. Throws as nlohmann::json does where the
// key has another form.
std::vector<StoredTable> StoredTablesOf(const nlohmann::ordered_json& manifest);

}  // namespace fusec
