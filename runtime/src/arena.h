#pragma once

#include <cstdint>
#include <span>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/executor.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// Packs the arena buffers that `target` uses: each lives from the first step that writes it to the
// last that touches it, and gets the lowest multiple of 256 where no buffer of an overlapping life
// lies. Largest first, which keeps the arena close to its bound.
StatusOr<ArenaPlan> PackArena(const Manifest& manifest, const Target& target,
                              std::span<const int64_t> buffer_bytes);

// The size of every buffer in bytes for these symbols; a negative or overflowing one is an error.
StatusOr<std::vector<int64_t>> BufferBytes(const Manifest& manifest,
                                           std::span<const int64_t> symbols);

}  // namespace fusec::runtime
