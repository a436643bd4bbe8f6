#pragma once

#include <string>
#include <vector>

#include "compiler/import/part_lengths.h"
#include "compiler/import/problems.h"
#include "compiler/ir/graph.h"

namespace fusec {

// Sizes that only run-time data tell, as those of the parts of a Split by lengths. While a graph is
// imported each is a symbol between 0 and a bound. In the end the bound takes its place: a tensor
// has as many rows as it can have, and those behind its count hold anything. That is right while
// each row is computed from the same row of the operands, and in the end some rows are looked up by
// number, as bags are by their bounds; everything else is refused. A count as data is a length.
class RunTimeCounts {
 public:
  // The size of part `number` of those that `lengths` holds the lengths of, at most `bound`; the
  // same for each tensor that is split by them.
  Expr Of(Value* lengths, int number, const Expr& bound, Ranges& ranges);
  // Of the inputs that lengths are made of, before Resolve.
  SizeTotals Totals(const Graph& graph) const;
  bool empty() const { return counts_.empty(); }

  // Checks all nodes that an output needs, and puts the bounds in. Problems name the node, or the
  // output whose size is one of the counts.
  void Resolve(Graph& graph, Problems& problems) const;

 private:
  struct Count {
    std::string symbol;
    Expr bound;
    Value* lengths;
    int number;
  };
  const Count* Find(const Expr& dim) const;  // null unless `dim` is a count by itself
  void CountsBecomeLengths(Graph& graph, const NodeSet& live) const;
  std::vector<Count> counts_;
};

}  // namespace fusec
