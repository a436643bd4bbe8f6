#pragma once

#include <memory>
#include <vector>

#include "compiler/plan/part_run.h"
#include "compiler/region/block_stages.h"
#include "compiler/support/adt.h"

namespace fusec {

// Elements of a stage that one loop makes: all of them, a part of a concatenation, or a run of
// alike parts.
struct BlockPiece {
  const BlockStage* stage;
  const Value* value;            // the stage's, or the first part
  int64_t axis = 0;              // of the stage's value, along which `offset` counts
  Expr offset;                   // where the part begins
  std::shared_ptr<PartRun> run;  // null where it is no run
  int phase = 0;                 // how many barriers stand before it
};

// The pieces in the order in which a block makes them, each in the first phase that it can be in.
struct BlockSchedule {
  std::vector<BlockPiece> pieces;
  DenseMap<const Value*, int> phases;  // in which the last element of a stage is made

  // Calls `visit` with all that a piece is made from, down to stages and what comes from outside.
  void VisitMadeFrom(const BlockPiece& piece, function_ref<void(const Value*)> visit) const;
  // What is made from a piece on until another stage begins, for a comment.
  std::string Words(const BlockPiece& first) const;
};
BlockSchedule ScheduleStages(const Node& region, ArrayRef<BlockStage> stages);

constexpr int kWarpSize = 32;
// Whether warps share out the sums of this stage: it has too few elements for a block's threads.
bool UsesWarps(const BlockStage& stage);
const BlockStage& StageOf(ArrayRef<BlockStage> stages, const Value* value);
// Where a part begins along its concatenation's axis.
Expr StartOf(const BlockStage::Part& part);

}  // namespace fusec
