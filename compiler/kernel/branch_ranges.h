#pragma once

#include <string>

#include "compiler/index/expr.h"

namespace fusec {

// While it lives, `ranges` know on which side of `limit` the position is: inside a branch, what is
// left of an index after a subtraction is not negative, and its divisions need no correction. Only
// where the position is a variable plus a constant.
class BranchRanges {
 public:
  BranchRanges(Ranges& ranges, const Expr& position, const Expr& limit, bool is_below);
  ~BranchRanges();
  BranchRanges(const BranchRanges&) = delete;
  BranchRanges& operator=(const BranchRanges&) = delete;

 private:
  Ranges& ranges_;
  std::string symbol_;
  Ranges::Bounds before_;
};

}  // namespace fusec
