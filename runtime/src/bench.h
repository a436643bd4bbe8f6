#pragma once

#include <span>
#include <vector>

#include "runtime/src/executor.h"

namespace fusec::runtime {

// Device time of one run in microseconds, `samples` times. On a GPU each is the mean over `replays`
// launches of the program's graph, back to back between two events, that go round `sets` (at most
// 8, of equal dims), so that no input is warm from the launch before; nothing is copied between
// host and GPU meanwhile. On the CPU each is the mean of `replays` runs. Indices out of range are
// reported as by Run.
StatusOr<std::vector<double>> MeasureRotating(Executor& executor, std::span<const RunBindings> sets,
                                              int samples, int replays);

}  // namespace fusec::runtime
