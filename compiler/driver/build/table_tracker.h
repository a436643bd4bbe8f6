#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/package/row_tables.h"
#include "compiler/plan/program_plan.h"
#include "passes/stored_rows.h"

namespace fusec {

// Follows the tables of a model through the passes, to know how their rows are stored at the end. A
// table is a float initializer that is read by gathers along its rows, directly or through casts,
// or that --updatable names.
//
// The rows of a table can be replaced at run time while the graph holds it as one constant that is
// the model's tensor, a cast of it, or its rows quantized one by one. The table becomes fixed (its
// rows cannot be replaced) if a pass that made new constants took a reader away from it, because
// the new constants may be computed from the table's values.
class TableTracker {
 public:
  // `imported` is the graph before any pass. `names` maps constants' names in the graph to those in
  // the model.
  TableTracker(const Graph& imported, const std::map<std::string, std::string>& names);

  // To be called after a pass that changed the graph. `quantized` are the tables that the pass
  // quantize-tables has stored so far.
  void Watch(const Graph& graph, const std::string& pass, ArrayRef<StoredTable> quantized);

  // To be called if the constants of `part` hold only some rows or columns of the table, under the
  // same names.
  void Cut(const Graph& part, const std::string& table);

  // The tables at the end. Tables whose values the kernels of `graph` may hold in their text are
  // fixed.
  std::vector<RowTable> Finish(const Graph& graph) const;

 private:
  struct Tracked {
    RowTable table;
    std::string hash, factors_hash;  // hashes of the constants that hold it
    bool is_updatable = false;       // --updatable names it: no pass decides by its values
    size_t readers = 0;
    std::string only_view;  // the result of its only reader, if that is a cast or identity
  };
  using Constants = std::map<std::string, const Node*>;
  struct Change;  // a change of the graph by a pass

  static bool FollowQuantized(Tracked& tracked, const Change& change);
  static bool FollowView(Tracked& tracked, const Change& change);
  std::string WhyGone(const Tracked& tracked, const Change& change) const;
  std::string WhyGone(const std::string& constant, const std::string& hash,
                      const Change& change) const;
  static void Fix(Tracked& tracked, const std::string& why);
  void CountReaders(const Graph& graph);

  std::vector<Tracked> tables_;
  std::map<std::string, std::string> hashes_;  // of all constants, by name
};

// The tables of an artifact from those of its targets. A table is fixed if it is fixed in one
// target, or if the targets store it in different ways.
std::vector<RowTable> MergeTables(ArrayRef<std::vector<RowTable>> by_target);

// Fixes tables that no kernel of the plan reads, and those that the plan stores in another layout,
// such as that of a library or of tensor cores.
void FixTablesOfPlan(const ProgramPlan& plan, const Graph& graph, std::vector<RowTable>& tables);

}  // namespace fusec
