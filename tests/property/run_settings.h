#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "tests/property/compiled_graphs.h"

namespace fusec {

// $FUSEC_PROPERTY_SEED (else 0) and what follows it: $FUSEC_PROPERTY_RUNS seeds, else `runs`.
std::vector<uint64_t> SeedsToRun(int runs);

// How kernels for a GPU are tried: FUSEC_PROPERTY_DEVICE=cuda runs them there.
RunOn GpuOrItsText();

// While it lives, a failure names the seed and shows the graph; so does an abort, where gtest says nothing.
class NowTrying {
 public:
  NowTrying(uint64_t seed, const Graph& graph);
  ~NowTrying();
  NowTrying(const NowTrying&) = delete;
  NowTrying& operator=(const NowTrying&) = delete;
};

}  // namespace fusec
