#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Gives the look-ups in tables of the host's memory (place_tables.h) a cache of rows in the GPU's,
// as PassOptions::table_cache says (--table-cache): the third operand of a gather, a constant that
// the runtime puts a cache in the place of. Its attributes say whose rows it holds, and how many.
// All caches have the same share of their tables' rows.
//
//   %table = constant() {host_table = "table"} ... : f32[1000, 128]
//   %y     = gather(%table, %ids) {axis = 0} : f32[batch, 128]
// =>
//   %table_cache = constant() {cached_rows = 104, cached_table = "table"} ... : i32[1, 4]
//   %y           = gather(%table, %ids, %table_cache) {axis = 0} : f32[batch, 128]
//
// For GPUs only, where rows are read over the bus. Errors of use: a cache of a size that holds no
// set of rows of each table, and a table of 2^31 rows or more.
Result<bool> CacheTables(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
