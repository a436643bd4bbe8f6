#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/support/adt.h"

namespace fusec {

// A table that stays in host memory while a GPU runs the program (--table-placement).
struct PlacedTable {
  std::string table;        // the name in the model
  int64_t bytes = 0;        // of stored rows, scales and biases
  int64_t cached_rows = 0;  // the most rows in GPU memory (--table-cache)
  bool operator==(const PlacedTable&) const = default;
};

// The value of the key "table_placement" of a manifest.
nlohmann::ordered_json PlacedTablesJson(ArrayRef<PlacedTable> tables);
// Parses that key of a whole manifest; empty if the manifest does not have it. Throws the
// exceptions of nlohmann::json if the value has another form.
std::vector<PlacedTable> PlacedTablesOf(const nlohmann::ordered_json& manifest);

}  // namespace fusec
