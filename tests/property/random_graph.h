#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/reference/interpreter.h"
#include "compiler/support/adt.h"

namespace fusec {

struct RandomGraphOptions {
  int nodes = 12;  // constants come on top
  Dtype dtype = Dtype::kF32;  // of everything but indices and conditions
  bool pointwise = true;
  bool views = true;
  bool gathers = true;
  bool reductions = true;
  bool matmuls = true;
  bool composites = true;
  bool scans = true;
  int64_t least_batch = 1;  // or 0
};

// Mostly few, so that a failure is easy to read.
inline int SomeNodeCount(uint64_t seed) { return seed % 5 == 4 ? 40 : 6 + static_cast<int>(seed % 5) * 4; }

// A small graph that Verify accepts, the same for the same seed. Symbol "batch" in 1..16, sometimes
// "items" too; inputs of odd sizes, 1 and 0, i64 inputs only as indices. Every unused value is an
// output, and sometimes a used one too.
std::unique_ptr<Graph> RandomGraph(uint64_t seed, const RandomGraphOptions& options = {});

// Inputs for it: floats are eighths in -2..2 (so that short sums and products are exact) and now and then -0; indices lie inside the
// tables they are used for, negative ones included. A symbol that is not given gets a small value of its own.
std::vector<ReferenceTensor> RandomInputs(const Graph& graph, uint64_t seed,
                                          std::map<std::string, int64_t> symbols);

// Makes the input a constant that TF32 must round.
void MakeWeights(Graph& graph, const std::string& name);

// Whether a pass multiplies weights with each other, which is exact for finite activations only (passes/merge_linear.h).
bool MergesWeights(const std::string& pass);
// Whether one of the activations that a pass merged away, in `before` and no more in `after`, is infinite or no number for these inputs.
bool LosesInfinities(const Graph& before, const Graph& after, ArrayRef<ReferenceTensor> inputs);
// Whether a pass of a compilation does so to the graph.
bool MergedWeightsMeetInfinities(const Graph& graph, ArrayRef<ReferenceTensor> inputs);

// Where two results of one graph differ by more than `tolerance` (absolute, and relative to 1), as text; "" if nowhere. NaN equals
// NaN, infinities only themselves.
std::string FirstDifference(ArrayRef<ReferenceTensor> expected,
                            ArrayRef<ReferenceTensor> found, double tolerance = 1e-9);

}  // namespace fusec
