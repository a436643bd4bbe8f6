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
  int nodes = 12;  // without constants
  Dtype dtype = Dtype::kF32;  // of all values except indices and conditions
  bool pointwise = true;
  bool views = true;
  bool gathers = true;
  bool reductions = true;
  bool matmuls = true;
  bool composites = true;
  bool scans = true;
  int64_t least_batch = 1;  // the smallest batch, 1 or 0
};

// A number of nodes for a seed; mostly few, so that a failure is easy to read.
inline int SomeNodeCount(uint64_t seed) { return seed % 5 == 4 ? 40 : 6 + static_cast<int>(seed % 5) * 4; }

// A small graph that Verify accepts, the same for the same seed. It has a symbol "batch" in 1..16, sometimes "items" too; inputs with odd
// sizes, 1 and 0; and i64 inputs only as indices. Every unused value is an output, and sometimes a used one too.
std::unique_ptr<Graph> RandomGraph(uint64_t seed, const RandomGraphOptions& options = {});

// Inputs for a graph. Floats are multiples of 1/8 in -2..2 (so that short sums and products are exact), and now and then -0. Indices are in
// range for the tables they index, including negative ones. A symbol without a given size gets a small one.
std::vector<ReferenceTensor> RandomInputs(const Graph& graph, uint64_t seed,
                                          std::map<std::string, int64_t> symbols);

// Turns the input of that name into a constant whose elements TF32 must round.
void MakeWeights(Graph& graph, const std::string& name);

// Whether the pass multiplies weights by each other, which is right for finite activations only (passes/merge_linear.h).
bool MergesWeights(const std::string& pass);
// Whether an activation that a pass merged away (it is in `before` and not in `after`) is infinite or NaN for these inputs.
bool LosesInfinities(const Graph& before, const Graph& after, ArrayRef<ReferenceTensor> inputs);
// Whether this happens in any pass of a compilation of the graph.
bool MergedWeightsMeetInfinities(const Graph& graph, ArrayRef<ReferenceTensor> inputs);

// Describes where two results of a graph differ by more than `tolerance` (absolute for magnitudes up to 1, and relative above); "" if
// nowhere. NaN equals NaN, and infinities equal only themselves.
std::string FirstDifference(ArrayRef<ReferenceTensor> expected,
                            ArrayRef<ReferenceTensor> found, double tolerance = 1e-9);

}  // namespace fusec
