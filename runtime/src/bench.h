#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/context.h"

namespace fusec::runtime {

// Measures the device time of one run in microseconds, `samples` times. The contexts belong to one
// program and have equal dims and different inputs. On a GPU a sample is the mean over `replays`
// consecutive launches of the program's graph between two events. The launches use the inputs of up
// to 8 contexts in turn, so that no launch finds its inputs in a cache from the previous one; they
// share the first context's scratch memory, and nothing is copied between host and GPU meanwhile.
// On the CPU a sample is the mean of `replays` runs. Indices out of range are reported as by Run.
StatusOr<std::vector<double>> MeasureRotating(std::span<Context* const> contexts, int samples,
                                              int replays);
// Like MeasureRotating, for a GPU: the runs of all contexts, one after another, form one graph, so
// that they share the cost of one graph launch. A sample is the mean over all runs of `replays`
// launches of that graph.
StatusOr<std::vector<double>> MeasureTogether(std::span<Context* const> contexts, int samples,
                                              int replays);

// Measures every step that runs for the contexts' dims, `samples` times, for contexts as above. On
// a GPU each step runs alone, on the program's own buffers as the earlier steps left them: a graph
// with one node per context, one after another, is replayed, so that a time includes the gap
// between two dependent nodes, as in the program's graph. On the CPU a step is timed within whole
// runs, which use the contexts in turn.
StatusOr<std::vector<StepTimes>> MeasureSteps(std::span<Context* const> contexts, int samples);

// The peak rates of the device; 0 if unknown.
struct DevicePeaks {
  double bytes_per_second = 0;  // to and from memory together
  double f32_per_second = 0;    // additions and multiplications of f32 outside of tensor cores
  std::string source;  // "memory clock 2619 MHz x 5120 bits ...", "copying 64 MiB with 2 threads"
};
StatusOr<DevicePeaks> PeaksOf(Device& device);

}  // namespace fusec::runtime
