#pragma once

#include <cstdint>
#include <vector>

#include "runtime/src/status.h"

namespace fusec::runtime {

class JsonValue;
struct Buffer;

// A cache of a table's rows in the memory of a GPU, where the table lies in that of the host.
struct RowCache {
  int cache = -1;          // the buffer that kernels are given the cache in the place of
  int table = -1;          // the constant whose rows it holds
  int64_t table_rows = 0;  // at most 2^31 - 1
  int64_t row_bytes = 0;
  int64_t sets = 0;

  static constexpr int64_t kWays =
      8;  // rows of a set, as in codegen_templates/device/row_cache.cuh
  int64_t rows() const { return sets * kWays; }
};

// The key "row_caches" of a manifest; none without it. Tables are constants of the host's memory,
// of the right size.
StatusOr<std::vector<RowCache>> ReadRowCaches(const JsonValue& manifest,
                                              const std::vector<Buffer>& buffers);

}  // namespace fusec::runtime
