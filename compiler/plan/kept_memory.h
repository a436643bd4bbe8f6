#pragma once

#include <optional>

#include "compiler/kernel/kernel_plan.h"
#include "compiler/plan/block_pieces.h"
#include "compiler/support/adt.h"
#include "compiler/support/gpu.h"

namespace fusec {

// Where a block program that multiplies by weights on tensor cores keeps what it keeps: in shared
// memory that is asked for at launch, since it is more than a kernel may declare. Values that are
// never needed at once share a place.
struct KeptMemory {
  DenseMap<const Value*, int64_t> places;  // in bytes
  int64_t bytes = 0;

  std::optional<int64_t> PlaceOf(const Value* value) const {
    const auto found = places.find(value);
    return found == places.end() ? std::nullopt : std::optional(found->second);
  }
};

// `bytes_of` is what a value takes for all rows of the block.
KeptMemory PlaceInMemory(const BlockSchedule& schedule, ArrayRef<BlockStage> stages,
                         function_ref<int64_t(const Value*)> bytes_of);

// How many such blocks share a multiprocessor. Where their memory leaves room for few, these get
// twice the threads if they may: most of what they do is to wait.
void ShareMultiprocessor(const Gpu& gpu, bool may_have_more_threads, KernelPlan& plan);

}  // namespace fusec
