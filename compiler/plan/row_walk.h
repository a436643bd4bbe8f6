#pragma once

#include <string>
#include <vector>

#include "compiler/kernel/kernel_builder.h"

namespace fusec {

// The loop of a team of threads over the elements of a row that they share. If the team has several
// threads and the row a constant length, the loop has a fixed number of unrolled steps: each thread
// processes the same elements in every pass and can keep their values in registers. If the row
// consists of whole vectors, a thread processes one vector of consecutive elements per step:
//
//     step 0                        step 1
//   | lane 0 | lane 1 | .. lane 31 | lane 0 | lane 1 | ..      one row
class RowWalk {
 public:
  enum class Team { kThread, kWarp, kBlock };
  static constexpr int kWarpSize = 32;
  static constexpr int64_t kMostSlots = 32;  // elements of a row per thread

  // `reduced` are the dims of a row. `widest_bytes` is the size of the widest element type among
  // the tensors in memory that have an element for every element of the row and whose rows may be
  // read and written as vectors; 0 if there are no such tensors.
  RowWalk(KernelBuilder& builder, Shape reduced, Team team, int64_t widest_bytes);

  Team team() const { return team_; }
  // Opens the loops over the row and returns the coordinates of an element.
  Exprs Open();
  void Close(const std::string& pragma = "");

  // The number of elements of a row per thread, if that is a constant; else 0.
  int64_t slots() const { return steps_ * vector_length_; }
  // Inside the loops: the number of the current element among those of the thread.
  CExpr Slot() const;
  // The constant of the kernel that holds slots().
  CExpr SlotsName();
  // The name of the number of elements of a row.
  static SizeNames Length();
  // The thread's number in its team.
  CExpr Member() const { return team_ == Team::kWarp ? "lane" : "threadIdx.x"; }

 private:
  Exprs OpenNest();
  Exprs OpenStride();
  Exprs OpenSteps();
  CExpr TeamSize();
  CExpr VectorLength() const;

  KernelBuilder& builder_;
  Shape reduced_;
  Team team_;
  int64_t vector_length_ = 1;
  int64_t steps_ = 0;  // 0: not a constant, or too many
  bool has_tail_ = false;
  Statement place_;  // declares the local for the element or vector of a step
  std::vector<Statement> headers_;
};

}  // namespace fusec
