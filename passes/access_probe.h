#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// Follows one element of a value back through a group of nodes, as code generation will, and
// watches where certain values (reductions' results) are read. A fusion is legal if each is read
// only at the element that the kernel has at hand.
class AccessProbe {
 public:
  AccessProbe(const std::set<const Node*>& group, Ranges ranges)
      : group_(group), ranges_(std::move(ranges)) {}

  Ranges& ranges() { return ranges_; }
  // The index of any element of a value of that shape: a variable for each axis, and 0 for axes of
  // size 1.
  std::vector<Expr> AnyElementOf(const Shape& shape);
  // `value` may be read at `index` only.
  void Expect(const Value* value, std::vector<Expr> index) { expected_[value] = std::move(index); }
  // `value` may be read in the row `row` (its leading coordinates) only.
  void ExpectRow(const Value* value, std::vector<Expr> row) {
    expected_rows_[value] = std::move(row);
  }
  // Like Follows, for a `value` that itself has an expectation: its producer is followed.
  bool FollowsProducer(const Value* value, const std::vector<Expr>& index);
  // Whether all reads that make element `index` of `value` are as expected.
  bool Follows(const Value* value, const std::vector<Expr>& index);

 private:
  bool FollowsReducer(const Node& reducer, const std::vector<Expr>& index);
  friend class ProbedElement;
  const std::set<const Node*>& group_;
  Ranges ranges_;
  std::map<const Value*, std::vector<Expr>> expected_;
  std::map<const Value*, std::vector<Expr>> expected_rows_;
  std::set<std::string> visited_;
  int fresh_ = 0;
  bool good_ = true;
};

}  // namespace fusec
