#pragma once

#include <cstddef>
#include <functional>

namespace fusec::runtime {

// Weights are copied in pieces of at most this many bytes, so that one travels while another is
// read.
inline constexpr size_t kCopyPieceBytes = size_t{4} << 20;

// How many threads copy that many bytes.
size_t CopyThreadsFor(size_t bytes);

// Calls work(0), work(1), ... in `count` threads, of which the caller is the first, and returns
// when all are done. A thread that the system does not give is missing: work must not need it.
void InCopyThreads(size_t count, const std::function<void(size_t)>& work);

}  // namespace fusec::runtime
