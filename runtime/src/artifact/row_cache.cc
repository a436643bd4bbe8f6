#include "runtime/src/artifact/row_cache.h"

#include <limits>

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/json_reader.h"
#include "runtime/src/artifact/manifest.h"

namespace fusec::runtime {
namespace {

StatusOr<int> ReadConstant(const JsonValue& item, std::string_view key,
                           const std::vector<Buffer>& buffers, bool on_host) {
  const auto last = static_cast<int64_t>(buffers.size()) - 1;
  FUSEC_RT_ASSIGN(const int64_t number, ReadInt(item, key, 0, last));
  const Buffer& buffer = buffers[static_cast<size_t>(number)];
  if (buffer.kind == BufferKind::kConstant && buffer.on_host == on_host)
    return static_cast<int>(number);
  FUSEC_RT_ASSIGN(const JsonValue field, item.Field(key));
  return field.Unexpected(on_host ? "a constant of the host's memory"
                                  : "a constant of the device's memory");
}

StatusOr<RowCache> ReadRowCache(const JsonValue& item, const std::vector<Buffer>& buffers) {
  constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max();
  RowCache cache;
  FUSEC_RT_ASSIGN(cache.cache, ReadConstant(item, "cache", buffers, false));
  FUSEC_RT_ASSIGN(cache.table, ReadConstant(item, "table", buffers, true));
  FUSEC_RT_ASSIGN(cache.table_rows, ReadInt(item, "table_rows", 1, kMostRows));
  FUSEC_RT_ASSIGN(const int64_t rows,
                  ReadInt(item, "rows", RowCache::kWays, kMostRows + RowCache::kWays));
  cache.sets = rows / RowCache::kWays;
  const Buffer& table = buffers[static_cast<size_t>(cache.table)];
  const auto elements = table.elements.Evaluate({});
  const int64_t bytes = elements ? *elements * DtypeBytes(table.dtype) : 0;
  cache.row_bytes = bytes / cache.table_rows;
  if (rows % RowCache::kWays == 0 && bytes > 0 && bytes % cache.table_rows == 0) return cache;
  FUSEC_RT_ASSIGN(const JsonValue field, item.Field("rows"));
  return field.Unexpected(Text("a multiple of ", RowCache::kWays, ", and a table of ", bytes,
                               " bytes with as many in each of its rows"));
}

}  // namespace

StatusOr<std::vector<RowCache>> ReadRowCaches(const JsonValue& manifest,
                                              const std::vector<Buffer>& buffers) {
  if (!manifest.Has("row_caches")) return std::vector<RowCache>();
  return ReadList(manifest, "row_caches",
                  [&](const JsonValue& item) { return ReadRowCache(item, buffers); });
}

}  // namespace fusec::runtime
