#pragma once

#include <cstddef>

#include "runtime/src/status.h"

namespace fusec::runtime {

// A DeviceMemory or PinnedMemory that grows as runs need and never shrinks. It grows in multiples
// of a step, so that the memory of a small model rarely grows. When it grows, its contents are lost
// and its address changes, so no run may be using it.
template <class Memory>
class GrowingMemory {
 public:
  explicit GrowingMemory(size_t step) : step_(step) {}

  auto get() const { return memory_.get(); }
  size_t bytes() const { return bytes_; }
  bool Holds(size_t bytes) const { return bytes <= bytes_; }

  // `allocate(bytes)` returns a StatusOr<Memory>. After an error there is no memory.
  template <class Allocate>
  Status Grow(size_t bytes, const Allocate& allocate) {
    if (Holds(bytes)) return {};
    const size_t needed = (bytes + step_ - 1) / step_ * step_;
    memory_ = {};  // freed first, because old and new together may not fit
    bytes_ = 0;
    FUSEC_RT_ASSIGN(memory_, allocate(needed));
    bytes_ = needed;
    return {};
  }

 private:
  size_t step_ = 1;
  Memory memory_;
  size_t bytes_ = 0;
};

}  // namespace fusec::runtime
