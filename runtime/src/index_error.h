#pragma once

#include <cstdint>
#include <span>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// What a kernel writes when it meets an index outside its range; zeroed before each run. Generated
// code shares the layout.
struct IndexError {
  int32_t site = 0;  // 0: none, else 1 + the index into Manifest::index_sites
  int32_t reserved = 0;
  long long position = 0;  // row-major, in the tensor of indices
  long long value = 0;     // the index found
  long long extent = 0;    // valid are -extent .. extent - 1; of lengths 0 .. extent
};

// Turns what the kernels left there into FUSEC_BAD_INPUT:
// `node "tables.3/Gather": index 200 at position [5, 3] of "sparse" is outside -200..199`.
Status CheckIndexError(const Manifest& manifest, std::span<const int64_t> symbols,
                       const IndexError& error);

}  // namespace fusec::runtime
