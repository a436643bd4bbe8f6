#pragma once

#include <cstddef>
#include <span>
#include <string>
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
// As MeasureRotating, for a GPU: runs of all contexts, one after the other, are one graph, so that a time has no launch
// of a graph in it, or one of as many as there are contexts. Each is the mean over `replays` launches of that graph and
// its runs.
StatusOr<std::vector<double>> MeasureTogether(std::span<Context* const> contexts, int samples,
                                              int replays);

// The times of every step that runs for the contexts' dims, each `samples` times, for contexts as above. On a GPU each
// step runs alone, on the program's own buffers as the steps before it left them: a graph with one node per context,
// one after the other, is replayed, so that a time includes the gap between two dependent nodes, as in the program's
// graph. On the CPU a step is timed within whole runs that go round the contexts.
StatusOr<std::vector<StepTimes>> MeasureSteps(std::span<Context* const> contexts, int samples);

// What the device can do at most; 0 where it is not known.
struct DevicePeaks {
  double bytes_per_second = 0;  // to and from memory together
  double f32_per_second = 0;    // additions and multiplications of f32 outside of tensor cores
  std::string source;  // "memory clock 2619 MHz x 5120 bits ...", "copying 64 MiB with 2 threads"
};
StatusOr<DevicePeaks> PeaksOf(Device& device);

}  // namespace fusec::runtime
