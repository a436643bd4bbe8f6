#pragma once

#include <span>
#include <vector>

#include "runtime/src/context.h"

namespace fusec::runtime {

// Device time of one run in microseconds, `samples` times, for contexts of one program with equal dims that differ
// in their inputs. On a GPU each is the mean over `replays` launches of the program's graph, back to back between
// two events, that go round the inputs of up to 8 contexts, so that none is warm from the launch before; they share
// the first context's scratch memory, and nothing is copied between host and GPU meanwhile. On the CPU each is the
// mean of `replays` runs. Indices out of range are reported as by Run.
StatusOr<std::vector<double>> MeasureRotating(std::span<Context* const> contexts, int samples,
                                              int replays);

}  // namespace fusec::runtime
