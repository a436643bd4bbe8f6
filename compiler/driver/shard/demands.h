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

// The embedding tables of a model, and what a run with these dims asks of each.
struct Demands {
  std::vector<TableDemand> tables;
  std::vector<TableSeam> whole, cut_by_rows, cut_by_columns;  // by table
};
Result<Demands> DemandsOf(const SimplifiedModel& model, const std::map<std::string, int64_t>& dims,
                          Wire wire);

// The rows that requests of a profile look up, into `demands`. `path`: an .npz with an array for
// each input that ids are computed of.
Result<void> AddProfile(const Graph& graph, const std::string& path, Demands& demands);

}  // namespace fusec
