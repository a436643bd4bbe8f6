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

// Manages sizes that are known only at run time, such as the part sizes of a Split whose lengths
// are data, or the number of positions that NonZero lists. During import each such count is a
// symbol of the graph between 0 and a bound. At the end the bound replaces the symbol: a tensor is
// allocated with as many rows as it can have at most, and the rows past its count are padding with
// undefined contents. Nodes whose results would depend on the padding are rewritten
// (counted_rows.h) or rejected.
class RunTimeCounts {
 public:
  // Numbers the counts of a loop's body, whose values may have counts of `outer` as sizes.
  void ContinueNumbers(const RunTimeCounts& outer) {
    first_number_ = outer.first_number_ + outer.counts_.size();
  }
  // Sets counts that must equal other sizes of the model, by symbol; a run in which one of them
  // differs fails.
  void SetSame(std::map<std::string, Expr> same) { same_ = std::move(same); }
  // The count that element `number` of `lengths` holds, at most `bound`. Tensors that are split by
  // the same lengths share their counts, and so do sums of the elements of the same mask.
  Expr Of(Value* lengths, int number, const Expr& bound, Graph& graph, Ranges& ranges);
  // The count that equals `sum`, if `sum` adds up the elements of a known mask.
  std::optional<Expr> OfSum(const Value* sum) const;
  // The constraints on inputs that lengths are computed from. Call it before Resolve.
  SizeTotals Totals(const Graph& graph) const;
  bool empty() const { return counts_.empty(); }

  // Checks or rewrites all nodes that an output depends on, and replaces the counts by their
  // bounds. Problems name the node, or the output whose size is a count. `with_counts` holds the
  // bounds of all symbols, counts included.
  void Resolve(Graph& graph, const Ranges& with_counts, Problems& problems);

 private:
  struct Count {
    std::string symbol;
    Expr bound;
    Value* lengths;
    int number;
    const Value* mask;              // the mask whose nonzero elements are counted; null otherwise
    std::optional<Expr> same = {};  // the size that SetSame equates it with

    Expr Size() const { return same ? *same : Expr::Symbol(symbol); }
  };
  const Count* Find(const std::string& symbol) const;
  Value* Held(const std::string& symbol, Formula& f) const;  // a scalar i64 at run time
  NodeSet NodesThatMatter(const Graph& graph) const;
  void SizesBecomeData(Graph& graph) const;
  void RowsBehindDoNotMatter(Graph& graph, const Ranges& ranges, Problems& problems);
  void SameSizesAreChecked(Graph& graph) const;
  size_t first_number_ = 0;  // in the names of symbols
  std::vector<Count> counts_;
  std::map<std::string, Expr> same_;
};

}  // namespace fusec
