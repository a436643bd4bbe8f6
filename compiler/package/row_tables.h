#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/support/adt.h"

namespace fusec {

// A table of the model, and how an artifact stores its rows. Stored row i depends only on row i of
// the model's table, so that fusec_update_rows can replace it.
struct RowTable {
  std::string table;  // the name of the initializer in the model
  Dtype dtype = Dtype::kF32;
  int64_t rows = 0, columns = 0;  // columns: all elements of a row
  std::string storage;            // dtype of stored rows, or "int8", "int4", "fp8"
  // The names of the graph's constants with the stored rows, and with their scales and biases (""
  // if there are none).
  std::string constant, factors;
  std::string fixed;          // why rows cannot be replaced; "" if they can
  bool is_looked_up = false;  // by gathers of rows; not in manifests
  bool operator==(const RowTable&) const = default;
};

// The value of the key "tables" of a manifest. `buffer_of` maps the name of a constant to the
// number of its buffer.
nlohmann::ordered_json RowTablesJson(ArrayRef<RowTable> tables,
                                     const std::function<int(const std::string&)>& buffer_of);
// Parses that key of a whole manifest; empty if the manifest does not have it. Throws the
// exceptions of nlohmann::json if the value has another form.
std::vector<RowTable> RowTablesOf(const nlohmann::ordered_json& manifest);

// Whether the rows of any of `tables` can be replaced.
bool HasReplaceableRows(ArrayRef<RowTable> tables);

}  // namespace fusec
