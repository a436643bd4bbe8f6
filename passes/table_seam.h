#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// The seam of an embedding table: the values that leave the machine which holds the table.
//
// The machine that holds a table also computes what needs only its rows and the model's inputs,
// such as masks, weights of ids, and sums of bags. The seam lies where the fewest bytes cross; if
// several places are equal, it lies at the first of them. Values have the names of the graph.
//
//   %rows  = gather(%table, %ids) {axis = 0}      : f32[batch, 20, 64]
//   %sum   = reduce_sum(%rows) {axes = [1], ...}  : f32[batch, 64]      <- crosses
//   %dense = concat(%sum, %features) ...
struct TableSeam {
  // Rows of a table that is cut by rows, looked up by `ids`. Each part must replace the rows that
  // another part holds by zeros. Everything that is computed from the rows before the seam is
  // linear in them, so that the results of the parts add up.
  struct PartialRows {
    std::string rows, ids;
  };

  std::string stays;  // why the table must stay with the rest of the model; "" if it need not
  std::vector<std::string> crossing;  // in the graph's order
  std::vector<PartialRows> partial;   // for a table that is cut by rows
  // For a table that is cut by columns: the values before the seam that have a column for each
  // column of the table.
  std::vector<std::string> by_columns;
  Expr look_ups;  // number of rows that a run looks up
  Expr bytes;     // number of bytes that cross
};

// How a table is cut: not at all, into ranges of rows, or into ranges of columns. The results of
// column parts are put side by side along the last axis of the values that cross.
enum class TableCut { kNone, kRows, kColumns };

// Finds the seams of a graph without regions.
class SeamFinder {
 public:
  // `tables`: the names of the constants that hold rows of embedding tables, or their factors.
  // `sizes`: the value of each symbol for which bytes are counted.
  SeamFinder(const Graph& graph, const std::set<std::string>& tables,
             std::map<std::string, int64_t> sizes);

  // The seam of the table that these constants hold together; every look-up reads the same rows of
  // all of them.
  TableSeam Find(const std::vector<std::string>& constants, TableCut cut) const;

  // Whether a value is computed from inputs and small constants alone, without matrix products, so
  // that any machine that has the inputs can compute it. It may include cumulative sums, sorts and
  // scatters of integers, as are used to place the ids that a mask chooses.
  bool IsBesideInputs(const Value* value) const { return beside_inputs_.count(value) != 0; }

 private:
  class Search;

  const Graph& graph_;
  std::map<std::string, int64_t> sizes_;
  ValueSet beside_inputs_;
  DenseMap<const Value*, std::vector<Node*>> readers_;
};

}  // namespace fusec
