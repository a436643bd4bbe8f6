#pragma once

#include <set>
#include <string>
#include <unordered_map>

#include "compiler/ir/graph.h"
#include "compiler/support/adt.h"

namespace fusec {

// Follows one element of a value back through a group of nodes, as code generation will, and checks
// where certain values (such as the results of reductions) are read. A fusion is legal if each of
// these values is read only at the element that the kernel has at hand.
class AccessProbe {
 public:
  AccessProbe(const NodeSet& group, Ranges ranges) : group_(group), ranges_(std::move(ranges)) {}

  Ranges& ranges() { return ranges_; }
  // The index of any element of a value of that shape: a variable for each axis, and 0 for axes of
  // size 1.
  Exprs AnyElementOf(ShapeRef shape);
  // `value` may be read at `index` only.
  void Expect(const Value* value, Exprs index) { expected_[value] = std::move(index); }
  // `value` may be read in the row `row` (its leading coordinates) only.
  void ExpectRow(const Value* value, Exprs row) { expected_rows_[value] = std::move(row); }
  // Like Follows, but ignores an expectation of `value` itself and follows its producer.
  bool FollowsProducer(const Value* value, ArrayRef<Expr> index);
  // Whether all reads that computing element `index` of `value` causes are as expected.
  bool Follows(const Value* value, ArrayRef<Expr> index);

 private:
  bool FollowsReducer(const Node& reducer, ArrayRef<Expr> index);
  friend class ProbedElement;
  const NodeSet& group_;
  Ranges ranges_;
  std::unordered_map<const Value*, Exprs> expected_;
  std::unordered_map<const Value*, Exprs> expected_rows_;
  std::set<std::string> visited_;
  int fresh_ = 0;
  bool good_ = true;
};

}  // namespace fusec
