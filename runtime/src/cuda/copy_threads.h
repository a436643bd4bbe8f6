#pragma once

#include <cstddef>
#include <functional>

namespace fusec::runtime {

// Weights are copied in pieces of at most this many bytes, so that one piece is sent to the GPU
// while another is read.
inline constexpr size_t kCopyPieceBytes = size_t{4} << 20;

// The number of threads that copy `bytes` bytes.
size_t CopyThreadsFor(size_t bytes);

// Calls work(0), work(1), ... in `count` threads, of which the caller is the first, and returns
// when all have finished. If the system cannot create a thread, its call is omitted, so the others
// must be able to do all the work.
void InCopyThreads(size_t count, const std::function<void(size_t)>& work);

}  // namespace fusec::runtime
