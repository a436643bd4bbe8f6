#pragma once

#include <cstddef>

#include "runtime/src/status.h"

namespace fusec::runtime {

// Memory of a DeviceMemory or PinnedMemory that grows with what its runs need and never shrinks. It
// grows in steps, so that a small model needs no more of it for larger dims. What it held is lost
// then and its address changes, so nothing may be using it.
template <class Memory>
class GrowingMemory {
 public:
  explicit GrowingMemory(size_t step) : step_(step) {}

  auto get() const { return memory_.get(); }
  size_t bytes() const { return bytes_; }
  bool Holds(size_t bytes) const { return bytes <= bytes_; }

  // `allocate(bytes)` gives a StatusOr<Memory>. After an error there is none.
  template <class Allocate>
  Status Grow(size_t bytes, const Allocate& allocate) {
    if (Holds(bytes)) return {};
    const size_t needed = (bytes + step_ - 1) / step_ * step_;
    memory_ = {};  // first, for both together may not fit
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
