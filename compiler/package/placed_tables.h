#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/support/adt.h"

namespace fusec {

// A table that lies in host memory while a GPU runs the program (--table-placement).
struct PlacedTable {
  std::string table;        // the model's name
  int64_t bytes = 0;        // as it is stored, with its scales and biases
  int64_t cached_rows = 0;  // at most, in the GPU's memory (--table-cache)
  bool operator==(const PlacedTable&) const = default;
};

// The key "table_placement" of a manifest.
nlohmann::ordered_json PlacedTablesJson(ArrayRef<PlacedTable> tables);
// Those of a whole manifest; none if it has no such key. Throws as nlohmann::json does where the
// key has another form.
std::vector<PlacedTable> PlacedTablesOf(const nlohmann::ordered_json& manifest);

}  // namespace fusec
