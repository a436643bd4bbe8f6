#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Marks the embedding tables that lie in host memory where a GPU runs the program, as
// PassOptions::table_placement says (--table-placement): kernels read their rows over the bus. A
// table is a constant of floats, [rows, columns], that is only gathered from along its rows, so
// that a run reads rows of it and never all of it.
//
//   %table = constant() ... : f32[1000, 128]
//   %y     = gather(%table, %ids) {axis = 0} : f32[batch, 128]
// =>
//   %table = constant() {host_table = "table"} ... : f32[1000, 128]
//   %y     = gather(%table, %ids) {axis = 0} : f32[batch, 128]
//
// Must run before quantize-tables, which hands the mark on to the constants that it makes. No later
// pass computes with the numbers of a marked constant (host_table.h). A pattern that matches no
// table is an error that says who else reads the constant, or lists the tables.
Result<bool> PlaceTables(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
