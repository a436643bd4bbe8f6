#pragma once

#include <optional>

#include "compiler/kernel/kernel_plan.h"
#include "compiler/plan/block_pieces.h"
#include "compiler/support/adt.h"
#include "compiler/support/gpu.h"

namespace fusec {

// The layout of shared memory in a block program that multiplies by weights on tensor cores. The
// memory is dynamic (requested at launch), since it exceeds what a kernel may declare statically.
// Values that are never live at the same time share a place.
struct KeptMemory {
  DenseMap<const Value*, int64_t> places;  // offsets in bytes
  int64_t bytes = 0;

  std::optional<int64_t> PlaceOf(const Value* value) const {
    const auto found = places.find(value);
    return found == places.end() ? std::nullopt : std::optional(found->second);
  }
};

// Assigns places to the values of `schedule`. `bytes_of` returns the bytes that a value takes for
// all rows of the block.
KeptMemory PlaceInMemory(const BlockSchedule& schedule, ArrayRef<BlockStage> stages,
                         function_ref<int64_t(const Value*)> bytes_of);

// Sets how many such blocks run on a multiprocessor at once. If shared memory allows only few,
// blocks get twice the threads (if `may_have_more_threads`), because they mostly wait for memory.
void ShareMultiprocessor(const Gpu& gpu, bool may_have_more_threads, KernelPlan& plan);

}  // namespace fusec
