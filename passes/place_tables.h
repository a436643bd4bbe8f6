#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Marks the embedding tables that lie in host memory where a GPU runs the program, as
// PassOptions::table_placement says (--table-placement): kernels read their rows over the bus. A
// table is a constant of floats, [rows, columns], that only gathers along its rows read, so that a
// run reads single rows and never the whole table.
//
//   %table = constant() ... : f32[1000, 128]
//   %y     = gather(%table, %ids) {axis = 0} : f32[batch, 128]
// =>
//   %table = constant() {host_table = "table"} ... : f32[1000, 128]
//   %y     = gather(%table, %ids) {axis = 0} : f32[batch, 128]
//
// The pass must run before quantize-tables, which copies the mark to the constants that it makes.
// No later pass computes with the elements of a marked constant (host_table.h). A pattern that
// matches no table is an error, which says what else reads the constant, or lists the tables.
Result<bool> PlaceTables(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
