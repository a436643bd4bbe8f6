#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"
#include "tests/property/compiled_graphs.h"
#include "tests/property/seeds_to_run.h"

namespace fusec {

// How kernels for a GPU are tried: FUSEC_PROPERTY_DEVICE=cuda runs them there, FUSEC_PROPERTY_DEVICE=emulation
// by the emulation of one, tensor cores included.
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
