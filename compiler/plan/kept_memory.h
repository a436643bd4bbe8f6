#pragma once

#include "compiler/plan/block_pieces.h"
#include "compiler/support/adt.h"

namespace fusec {

// Where a block program that multiplies by weights on tensor cores keeps what it keeps: in shared
// memory that is asked for at launch, since it is more than a kernel may declare. Values that are
// never needed at once share a place.
struct KeptMemory {
  DenseMap<const Value*, int64_t> places;  // in bytes
  int64_t bytes = 0;
};

// `bytes_of` is what a value takes for all rows of the block.
KeptMemory PlaceInMemory(const BlockSchedule& schedule, ArrayRef<BlockStage> stages,
                         function_ref<int64_t(const Value*)> bytes_of);

}  // namespace fusec
