#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/seeds_to_run.h"

namespace fusec {

// How kernels for a GPU are run: FUSEC_PROPERTY_DEVICE=cuda runs them on a GPU, FUSEC_PROPERTY_DEVICE=emulation on the emulated GPU,
// including tensor cores; by default the CPU parts of their text run.
RunOn GpuOrItsText();

// While an object exists, a test failure prints the seed and the graph; so does an abort, of which gtest prints nothing.
class NowTrying {
 public:
  NowTrying(uint64_t seed, const Graph& graph);
  ~NowTrying();
  NowTrying(const NowTrying&) = delete;
  NowTrying& operator=(const NowTrying&) = delete;
};

}  // namespace fusec
