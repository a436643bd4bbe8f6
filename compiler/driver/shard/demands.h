#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/driver/build/compile.h"
#include "compiler/driver/shard/shard_plan.h"
#include "passes/shard_graph.h"
#include "passes/table_seam.h"

namespace fusec {

// The embedding tables of a model, the load that a run at given dims puts on each of them, and
// where their results would leave the machine that holds them, for each way to cut the table.
struct Demands {
  std::vector<TableDemand> tables;
  std::vector<TableSeam> whole, cut_by_rows, cut_by_columns;  // one for each table
};
Result<Demands> DemandsOf(const SimplifiedModel& model, const std::map<std::string, int64_t>& dims,
                          Wire wire);

// Adds the rows that the requests of a profile look up to `demands`. `path` is an .npz file with an
// array for each input from which ids are computed.
Result<void> AddProfile(const Graph& graph, const std::string& path, Demands& demands);

}  // namespace fusec
