#pragma once

#include <cstdint>

// The number of calls of operator new in this process so far.
int64_t HeapAllocations();
