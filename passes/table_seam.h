#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// Where what is looked up in an embedding table leaves the machine that holds it.
//
// Beside a table stands whatever can be computed there of its rows and of the model's inputs:
// masks, weights of ids, sums of bags. The seam is drawn where the fewest bytes cross it, and of
// several such places at the first. Values are named as in the graph.
//
//   %rows  = gather(%table, %ids) {axis = 0}      : f32[batch, 20, 64]
//   %sum   = reduce_sum(%rows) {axes = [1], ...}  : f32[batch, 64]      <- crosses
//   %dense = concat(%sum, %features) ...
struct TableSeam {
  // Rows that the ids choose, as a table that is cut by rows has them: those that another part has
  // are to be left out there. All that is computed of them before the seam is linear in them, so
  // that the parts add up.
  struct PartialRows {
    std::string rows, ids;
  };

  std::string stays;  // why the table must stay with the rest of the model; "" if it need not
  std::vector<std::string> crossing;  // in the graph's order
  std::vector<PartialRows> partial;   // of a table that is cut by rows
  // Of a table that is cut by columns: all before the seam that has a column for each of its own.
  std::vector<std::string> by_columns;
  Expr look_ups;  // rows that a run reads
  Expr bytes;     // that cross
};

// How a table is taken apart: not at all, into ranges of its rows, or into ranges of its columns,
// whose parts stand side by side on the last axis of what crosses.
enum class TableCut { kNone, kRows, kColumns };

// Finds the seams of a graph without regions.
class SeamFinder {
 public:
  // `tables`: the constants that hold rows of embedding tables, or their factors, by name. `sizes`:
  // by symbol, those that bytes are counted for.
  SeamFinder(const Graph& graph, const std::set<std::string>& tables,
             std::map<std::string, int64_t> sizes);

  // Of the table that these constants hold, of which every look-up reads the same rows.
  TableSeam Find(const std::vector<std::string>& constants, TableCut cut) const;

  // Whether a value is computed of inputs and small constants alone, without a product: wherever
  // the inputs are it may be computed. Whole numbers may be counted, sorted and scattered for it,
  // as is done to place the ids that a mask chooses.
  bool IsBesideInputs(const Value* value) const { return beside_inputs_.count(value) != 0; }

 private:
  class Search;

  const Graph& graph_;
  std::map<std::string, int64_t> sizes_;
  ValueSet beside_inputs_;
  DenseMap<const Value*, std::vector<Node*>> readers_;
};

}  // namespace fusec
