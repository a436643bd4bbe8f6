#include "tests/unit/runtime/heap_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> allocations = 0;
}  // namespace

int64_t HeapAllocations() { return allocations; }

void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes + 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
