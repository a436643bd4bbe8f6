#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/part_lengths.h"
#include "compiler/import/problems.h"
#include "compiler/ir/graph.h"

namespace fusec {

class Formula;

// Sizes that only run-time data tell, as those of the parts of a Split by lengths and the number of
// places of a NonZero. While a graph is imported each is a symbol of it between 0 and a bound. In
// the end the bound takes its place: a tensor has as many rows as it can have, and those behind its
// count hold anything. Nodes for which that matters are written again (counted_rows.h), or refused.
class RunTimeCounts {
 public:
  // Counts that other sizes of the model turned out to be, by their symbols; a run in which one of
  // them differs fails.
  void SetSame(std::map<std::string, Expr> same) { same_ = std::move(same); }
  // The size that element `number` of `lengths` holds, at most `bound`; the same for each tensor
  // that is split by them. Sums of the elements of one mask are one count.
  Expr Of(Value* lengths, int number, const Expr& bound, Graph& graph, Ranges& ranges);
  // The count that a sum of a mask's elements is, if it is known.
  std::optional<Expr> OfSum(const Value* sum) const;
  // Of the inputs that lengths of parts are made of, before Resolve.
  SizeTotals Totals(const Graph& graph) const;
  bool empty() const { return counts_.empty(); }

  // Checks all nodes that an output needs, and puts the bounds in. Problems name the node, or the
  // output whose size is one of the counts. `with_counts`: of the symbols of the graph and counts.
  void Resolve(Graph& graph, const Ranges& with_counts, Problems& problems);

 private:
  struct Count {
    std::string symbol;
    Expr bound;
    Value* lengths;
    int number;
    const Value* mask;  // whose elements other than 0 are counted; null for other lengths
    std::optional<Expr> same = {};  // what SetSame says that it is

    Expr Size() const { return same ? *same : Expr::Symbol(symbol); }
  };
  const Count* Find(const std::string& symbol) const;
  Value* Held(const std::string& symbol, Formula& f) const;  // a scalar i64 at run time
  NodeSet NodesThatMatter(const Graph& graph) const;
  void SizesBecomeData(Graph& graph) const;
  void RowsBehindDoNotMatter(Graph& graph, const Ranges& ranges, Problems& problems);
  void SameSizesAreChecked(Graph& graph) const;
  std::vector<Count> counts_;
  std::map<std::string, Expr> same_;
};

}  // namespace fusec
