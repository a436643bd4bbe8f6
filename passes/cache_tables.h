#pragma once

#include "passes/pass_manager.h"

namespace fusec {

// Gives look-ups in tables that lie in host memory (place_tables.h) a cache of rows in GPU memory,
// as PassOptions::table_cache says (--table-cache). The cache is the third operand of the gather: a
// placeholder constant, which the runtime replaces by the cache. Its attributes name the table and
// give the number of cached rows. All caches hold the same share of their tables' rows.
//
//   %table = constant() {host_table = "table"} ... : f32[1000, 128]
//   %y     = gather(%table, %ids) {axis = 0} : f32[batch, 128]
// =>
//   %table_cache = constant() {cached_rows = 104, cached_table = "table"} ... : i32[1, 4]
//   %y           = gather(%table, %ids, %table_cache) {axis = 0} : f32[batch, 128]
//
// This is for GPUs only, which read such rows over the bus. Usage errors: a cache too small for one
// set of rows of each table, and a table of 2^31 rows or more.
Result<bool> CacheTables(Graph& graph, const PassOptions& options, PassReport& report);

}  // namespace fusec
