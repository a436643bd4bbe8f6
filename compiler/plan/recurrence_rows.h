#pragma once

#include "compiler/kernel/kernel_plan.h"

namespace fusec {

// How many rows of the batch a block of a recurrence `node` owns: `wanted`, or as many of these as
// find room in the shared memory of a GPU.
int64_t RecurrenceRows(const Node& node, TargetKind target, int64_t wanted);

}  // namespace fusec
