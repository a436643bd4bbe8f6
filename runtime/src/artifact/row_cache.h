#pragma once

#include <cstdint>
#include <vector>

#include "runtime/src/status.h"

namespace fusec::runtime {

class JsonValue;
struct Buffer;

// A cache in GPU memory for rows of a table in host memory.
struct RowCache {
  int cache = -1;          // the buffer for which kernels get the address of the cache
  int table = -1;          // the constant whose rows it holds
  int64_t table_rows = 0;  // at most 2^31 - 1
  int64_t row_bytes = 0;
  int64_t sets = 0;

  static constexpr int64_t kWays =
      8;  // rows of a set, as in codegen_templates/device/row_cache.cuh
  int64_t rows() const { return sets * kWays; }
};

// Reads the key "row_caches" of a manifest and checks that the tables are constants in host memory
// of the right size. Without the key there are no caches.
StatusOr<std::vector<RowCache>> ReadRowCaches(const JsonValue& manifest,
                                              const std::vector<Buffer>& buffers);

}  // namespace fusec::runtime
