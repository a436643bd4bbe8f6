#pragma once

#include <cstdint>
#include <span>

#include "runtime/src/artifact/manifest.h"
#include "runtime/src/executor.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// Packs the arena buffers that `target` uses. A buffer is live from the first step that writes it
// to the last step that uses it. The buffers are placed in order of decreasing size, each at the
// lowest multiple of 256 bytes that overlaps no other live buffer; this order keeps the arena close
// to the smallest possible size.
StatusOr<ArenaPlan> PackArena(const Manifest& manifest, const Target& target,
                              std::span<const int64_t> buffer_bytes);

// The size of every buffer in bytes for these symbols; a negative or overflowing size is an error.
StatusOr<std::vector<int64_t>> BufferBytes(const Manifest& manifest,
                                           std::span<const int64_t> symbols);

}  // namespace fusec::runtime
