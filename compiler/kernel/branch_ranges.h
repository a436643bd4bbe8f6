#pragma once

#include <string>

#include "compiler/index/expr.h"

namespace fusec {

// During its lifetime, `ranges` know on which side of `limit` the position is. It is used inside a
// branch: there, an index minus the limit is known not to be negative, so that its divisions need
// no correction. It only has an effect if the position is a variable plus a constant.
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
