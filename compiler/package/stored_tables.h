#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/support/adt.h"
#include "passes/stored_rows.h"

namespace fusec {

// The value of the key "table_storage" of a manifest: how an artifact stores the tables that
// --table-storage names.
nlohmann::ordered_json StoredTablesJson(ArrayRef<StoredTable> tables);
// Parses that key of a whole manifest; empty if the manifest does not have it. Throws the
// exceptions of nlohmann::json if the value has another form.
std::vector<StoredTable> StoredTablesOf(const nlohmann::ordered_json& manifest);

}  // namespace fusec
