#pragma once

#include <memory>
#include <vector>

#include "compiler/plan/part_run.h"
#include "compiler/region/block_stages.h"
#include "compiler/support/adt.h"

namespace fusec {

// Elements of a stage that one loop computes: all of them, a part of a concatenation, or a run of
// similar parts (part_run.h).
struct BlockPiece {
  const BlockStage* stage;
  const Value* value;            // the value of the stage, or the first part
  int64_t axis = 0;              // the axis of the stage's value along which `offset` counts
  Expr offset;                   // where the part begins
  std::shared_ptr<PartRun> run;  // null if the piece is no run
  int phase = 0;                 // the number of barriers before it
};

// The pieces in the order in which a block computes them, each in the earliest possible phase.
struct BlockSchedule {
  std::vector<BlockPiece> pieces;
  DenseMap<const Value*, int> phases;  // the phase in which a stage is complete

  // Calls `visit` with each value that a piece is computed from, down to stages and operands of the
  // region.
  void VisitMadeFrom(const BlockPiece& piece, function_ref<void(const Value*)> visit) const;
  // Names the ops that are computed from a piece on until another stage begins, for a comment.
  std::string Words(const BlockPiece& first) const;
};
BlockSchedule ScheduleStages(const Node& region, ArrayRef<BlockStage> stages);

constexpr int kWarpSize = 32;
// Whether a warp computes each element of this stage: the stage is a single reduction, not a
// matmul, of at least kWarpSize elements.
bool UsesWarps(const BlockStage& stage);
const BlockStage& StageOf(ArrayRef<BlockStage> stages, const Value* value);
// The position at which a part begins along the axis of its concatenation.
Expr StartOf(const BlockStage::Part& part);

}  // namespace fusec
