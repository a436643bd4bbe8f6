#pragma once

#include <string>
#include <vector>

#include "compiler/kernel/kernel_builder.h"

namespace fusec {

// The threads that share a row, and their way through its elements. A team of several threads walks
// a row of constant length in a fixed number of steps, which are unrolled: each thread meets
// the same elements in every pass and can keep values of them in registers. Where whole vectors
// make up the row, a thread takes a vector of neighbouring elements per step:
//
//     step 0                        step 1
//   | lane 0 | lane 1 | .. lane 31 | lane 0 | lane 1 | ..      one row
class RowWalk {
 public:
  enum class Team { kThread, kWarp, kBlock };
  static constexpr int kWarpSize = 32;
  static constexpr int64_t kMostSlots = 32;  // elements of a row that one thread owns

  // `reduced` are the dims of a row. `widest_bytes` is the size of the widest element that memory
  // holds for every element of the row, in rows that may be read and written as vectors; 0 if
  // there are none such.
  RowWalk(KernelBuilder& builder, Shape reduced, Team team, int64_t widest_bytes);

  Team team() const { return team_; }
  // Opens the loops over the row and returns the coordinates of an element.
  Exprs Open();
  void Close(const std::string& pragma = "");

  // How many elements of a row one thread owns, if that is a constant; else 0.
  int64_t slots() const { return steps_ * vector_length_; }
  // Inside the loops: the number of the thread's element.
  CExpr Slot() const;
  // The constant of the kernel that holds slots().
  CExpr SlotsName();
  // What the kernel calls the number of a row's elements.
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
  Statement place_;  // of a step: the local that says which element or vector it is about
  std::vector<Statement> headers_;
};

}  // namespace fusec
