#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/package/row_tables.h"
#include "compiler/plan/program_plan.h"
#include "passes/stored_rows.h"

namespace fusec {

// Follows the tables of a model through the passes, and tells how their rows are stored in the end.
// A table is a float initializer that gathers along its rows read, directly or behind casts, or
// that --updatable names.
//
// Its rows stay replaceable while the graph has it as one constant that is the model's tensor, its
// cast, or its rows quantized one by one. They do not if a pass that made new constants took a
// reader away from it: the reader's result, or more, is computed of the table's numbers then.
class TableTracker {
 public:
  // `imported`: before any pass. `names`: the model's names of constants, by the graph's.
  TableTracker(const Graph& imported, const std::map<std::string, std::string>& names);

  // After a pass that changed the graph. `quantized`: tables that quantize-tables has stored.
  void Watch(const Graph& graph, const std::string& pass, ArrayRef<StoredTable> quantized);

  // `part` has only some rows or columns of the table in its constants, which have kept their
  // names.
  void Cut(const Graph& part, const std::string& table);

  // The tables, with those fixed whose numbers the kernels of `graph` may hold.
  std::vector<RowTable> Finish(const Graph& graph) const;

 private:
  struct Tracked {
    RowTable table;
    std::string hash, factors_hash;  // of the constants that have it now
    bool is_updatable = false;       // no pass decides by its numbers
    size_t readers = 0;
    std::string only_view;  // the result of its only reader, if that is a cast or identity
  };
  using Constants = std::map<std::string, const Node*>;
  struct Change;  // of the graph, by a pass

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

// The tables of all targets: one is fixed if it is in one of them, or if they store it in
// different constants.
std::vector<RowTable> MergeTables(ArrayRef<std::vector<RowTable>> by_target);

// Fixes tables that no kernel reads, or that a target stores as a library or tensor cores want
// them.
void FixTablesOfPlan(const ProgramPlan& plan, const Graph& graph, std::vector<RowTable>& tables);

}  // namespace fusec
