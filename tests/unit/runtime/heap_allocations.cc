#include "tests/unit/runtime/heap_allocations.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocations = 0;

void* Allocate(size_t bytes) {
  ++allocations;
  return std::malloc(std::max<size_t>(bytes, 1));
}

}  // namespace

int64_t HeapAllocations() { return allocations; }

// Replaces every form of new whose memory the deletes below free, since AddressSanitizer rejects mixing these with its own.
void* operator new(size_t bytes) {
  if (void* memory = Allocate(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
