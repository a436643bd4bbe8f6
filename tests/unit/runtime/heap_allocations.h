#pragma once

#include <cstdint>

// Calls of operator new in this process until now.
int64_t HeapAllocations();
