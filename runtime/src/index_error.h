#pragma once

#include <cstdint>
#include <span>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// The record that a kernel writes when it finds an index out of range; it is zeroed before each
// run. Generated code has the same layout.
struct IndexError {
  int32_t site = 0;  // 0: none, else 1 + the index into Manifest::index_sites
  int32_t reserved = 0;
  long long position = 0;  // row-major, in the tensor of indices
  long long value = 0;     // the index found
  // Valid are indices in -extent .. extent - 1, lengths in 0 .. extent, slots in -1 .. extent - 1.
  long long extent = 0;
};

// Returns FUSEC_BAD_INPUT if the kernels have written a record, for example
// `node "tables.3/Gather": index 200 at position [5, 3] of "sparse" is outside -200..199`.
Status CheckIndexError(const Manifest& manifest, std::span<const int64_t> symbols,
                       const IndexError& error);

}  // namespace fusec::runtime
