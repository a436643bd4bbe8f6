// Updates of a table's rows from the caller's tensors.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>

#include "runtime/python/src/program.h"

namespace fusec::python {

// Updates rows. `ids` is a vector of i32 or i64; `rows` has a row for each id, in the table's dtype
// in the model. Both are in host memory or both on the program's GPU. Raises the errors of
// fusec_update_rows.
void UpdateRows(const std::shared_ptr<Program>& program, const std::string& table, nb::handle ids,
                nb::handle rows);

// Loads rows into the table's cache, as fusec_warm_table does. `ids`: i32 or i64 of any shape, in
// host memory.
void WarmTable(const std::shared_ptr<Program>& program, const std::string& table, nb::handle ids);

}  // namespace fusec::python
