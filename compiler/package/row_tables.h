#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/support/adt.h"

namespace fusec {

// A table of the model, and how its rows lie in what an artifact stores: row i there depends on
// the model's row i alone, so that fusec_update_rows can replace it.
struct RowTable {
  std::string table;  // the initializer's name in the model
  Dtype dtype = Dtype::kF32;
  int64_t rows = 0, columns = 0;  // columns: elements of a row, whatever its axes
  std::string storage;            // the dtype of stored rows, or "int8", "int4", "fp8"
  // The constants of the graph with the stored rows, and with their scales and biases (or "").
  std::string constant, factors;
  std::string fixed;          // why rows cannot be replaced; "" if they can
  bool is_looked_up = false;  // by gathers along the rows; no manifest has it
  bool operator==(const RowTable&) const = default;
};

// The key "tables" of a manifest. `buffer_of` numbers constants.
nlohmann::ordered_json RowTablesJson(ArrayRef<RowTable> tables,
                                     const std::function<int(const std::string&)>& buffer_of);
// Those of a whole manifest; none if it has no such key. Throws as nlohmann::json does where the
// key has another form.
std::vector<RowTable> RowTablesOf(const nlohmann::ordered_json& manifest);

// Whether rows of any of them can be replaced.
bool HasReplaceableRows(ArrayRef<RowTable> tables);

}  // namespace fusec
