#include "runtime/src/cuda/cuda_row_caches.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/src/cuda/cuda_device.h"

namespace fusec::runtime {
namespace {

constexpr unsigned kBlockSize = 256;
constexpr const char* kPurpose = "the cache of a table's rows";
constexpr int64_t kWarpSize = 32;

// The layout that codegen_templates/device/row_cache.cuh declares.
constexpr size_t kSetBytes = 128, kCounters = 64;
struct Header {
  int64_t first_row;
  uint32_t set_count, noting_limit, noting_seed, admitted;
  uint32_t reserved[26];
  uint32_t hits[kCounters], misses[kCounters];
};
static_assert(sizeof(Header) == 640);

// One of 128 threads counts the rows that it reads, so that the counting costs little.
constexpr uint32_t kNotingLimit = uint32_t{1} << 25;
// The most bytes that all caches together admit in a period; they take 80 us over PCIe 5 with 16
// lanes.
constexpr int64_t kAdmittedBytes = 4 << 20;
constexpr int64_t kLeastAdmitted = 32;  // rows per cache and period
// When this many uses per row of the caches have been counted, all counts are halved.
constexpr uint64_t kUsesOfGeneration = 8;
constexpr int64_t kIdsOfPiece = 1 << 16;  // ids per launch of Warm

int64_t Remainder(int64_t a, int64_t b) { return (a % b + b) % b; }

unsigned BlocksFor(int64_t threads) {
  return static_cast<unsigned>((threads + kBlockSize - 1) / kBlockSize);
}

// The first address from `place` on whose distance to the table is a multiple of a row.
CUdeviceptr WholeRowsFrom(CUdeviceptr table, CUdeviceptr place, int64_t row_bytes) {
  return place +
         static_cast<CUdeviceptr>(Remainder(static_cast<int64_t>(table - place), row_bytes));
}

}  // namespace

CudaRowCaches::~CudaRowCaches() {
  if (empty()) return;
  const ScopedContext scope(device_.context());
  static_cast<void>(device_.weights_switch().Wait());
}

StatusOr<CudaRowCaches::CachedTable> CudaRowCaches::Allocate(const RowCache& cache) {
  const CudaContext& context = device_.context();
  CachedTable made{};
  made.table = device_.weights().Address(cache.table);
  made.row_bytes = cache.row_bytes;
  made.set_count = static_cast<uint32_t>(cache.sets);
  const size_t sets = sizeof(Header) + static_cast<size_t>(cache.sets) * kSetBytes;
  const auto bank = static_cast<size_t>((cache.rows() + 1) * cache.row_bytes);
  FUSEC_RT_ASSIGN(DeviceMemory memory, AllocateDevice(context, sets + bank, kPurpose));
  made.cache = memory.get();
  made.bank = WholeRowsFrom(made.table, made.cache + sets, cache.row_bytes);
  memory_.push_back(std::move(memory));
  bytes_ += sets + bank;
  return made;
}

Status CudaRowCaches::AcquireKernels() {
  FUSEC_RT_ASSIGN(module_, device_.LoadRowKernels());
  return LoadFunctions(device_.context(), module_,
                       {{&kernels_.empty_sets, "empty_sets"},
                        {&kernels_.note_rows, "note_rows"},
                        {&kernels_.admit_rows, "admit_rows"},
                        {&kernels_.end_period, "end_period"},
                        {&kernels_.copy_all_rows, "copy_all_rows"},
                        {&kernels_.copy_rows, "copy_rows"}});
}

Status CudaRowCaches::Create() {
  const std::vector<RowCache>& caches = device_.manifest().row_caches;
  if (caches.empty()) return {};
  const CudaContext& context = device_.context();
  FUSEC_RT_TRY(AcquireKernels());
  int64_t row_bytes = 0;
  for (const RowCache& cache : caches) {
    FUSEC_RT_ASSIGN(CachedTable table, Allocate(cache));
    tables_.push_back(table);
    row_bytes += cache.row_bytes;
  }
  for (CachedTable& table : tables_) {
    const int64_t rows = std::max(kLeastAdmitted, kAdmittedBytes / row_bytes);
    table.most_admitted = static_cast<uint32_t>(rows);
  }
  const size_t bytes = tables_.size() * sizeof(CachedTable);
  const size_t totals = tables_.size() * sizeof(Totals);
  FUSEC_RT_ASSIGN(tables_on_device_, AllocateDevice(context, bytes, kPurpose));
  FUSEC_RT_ASSIGN(totals_, AllocateDevice(context, totals, kPurpose));
  FUSEC_RT_ASSIGN(seen_totals_, AllocatePinned(context, totals, kPurpose));
  std::memset(seen_totals_.get(), 0, totals);
  std::vector<Header> headers;
  for (const CachedTable& table : tables_) {
    Header& header = headers.emplace_back(Header{});
    header.first_row = static_cast<int64_t>(table.table - table.bank) / table.row_bytes;
    header.set_count = table.set_count;
    header.noting_limit = kNotingLimit;
  }
  return device_.weights_switch().Switch([&](CUstream stream) -> Status {
    const auto write = [&](CUdeviceptr to, const void* from, size_t size) {
      return FUSEC_CUDA(context, kPurpose, cuMemcpyHtoDAsync, to, from, size, stream);
    };
    FUSEC_RT_TRY(write(tables_on_device_.get(), tables_.data(), bytes));
    FUSEC_RT_TRY(write(totals_.get(), seen_totals_.get(), totals));
    for (size_t i = 0; i < headers.size(); ++i)
      FUSEC_RT_TRY(write(tables_[i].cache, &headers[i], sizeof(Header)));
    CUdeviceptr tables = tables_on_device_.get();
    void* arguments[] = {&tables};
    return LaunchOfAll(kernels_.empty_sets, arguments, stream);
  });
}

unsigned CudaRowCaches::BlocksOfSets() const {
  uint32_t most = 0;
  for (const CachedTable& table : tables_) most = std::max(most, table.set_count);
  return BlocksFor(most * kWarpSize);
}

Status CudaRowCaches::Launch(CUfunction kernel, const Grid& grid, void** arguments,
                             CUstream stream) const {
  return FUSEC_CUDA(device_.context(), kPurpose, cuLaunchKernel, kernel, grid.x, grid.y, 1,
                    grid.threads, 1, 1, 0, stream, arguments, nullptr);
}

Status CudaRowCaches::LaunchOfAll(CUfunction kernel, void** arguments, CUstream stream) const {
  const auto tables = static_cast<unsigned>(tables_.size());
  return Launch(kernel, {BlocksOfSets(), tables, kBlockSize}, arguments, stream);
}

Status CudaRowCaches::EnqueueAdmission(bool ages, CUstream stream) {
  CUdeviceptr tables = tables_on_device_.get();
  // The first set is varied by a prime, so that no set always comes first.
  auto first_set = static_cast<unsigned>(periods_ * 2654435761u);
  int halves = ages ? 1 : 0;
  void* arguments[] = {&tables, &first_set, &halves};
  return LaunchOfAll(kernels_.admit_rows, arguments, stream);
}

Status CudaRowCaches::EnqueueEndOfPeriod(CUstream stream) {
  CUdeviceptr tables = tables_on_device_.get(), totals = totals_.get();
  auto limit = kNotingLimit, seed = static_cast<uint32_t>(++periods_ * 0x9e3779b9u);
  void* arguments[] = {&tables, &totals, &limit, &seed};
  const Grid grid{static_cast<unsigned>(tables_.size()), 1, static_cast<unsigned>(kCounters)};
  FUSEC_RT_TRY(Launch(kernels_.end_period, grid, arguments, stream));
  return FUSEC_CUDA(device_.context(), kPurpose, cuMemcpyDtoHAsync, seen_totals_.get(), totals,
                    tables_.size() * sizeof(Totals), stream);
}

Status CudaRowCaches::EndPeriod() {
  runs_ = 0;
  // The totals may be those of an earlier period; they are only used to estimate the rate of
  // changes.
  uint64_t admitted = 0, noted = 0, rows = 0;
  const auto* seen = static_cast<const Totals*>(seen_totals_.get());
  for (size_t i = 0; i < tables_.size(); ++i) {
    admitted += seen[i].admitted;
    noted += seen[i].hits + seen[i].misses;
    rows += tables_[i].set_count * static_cast<uint64_t>(RowCache::kWays);
  }
  const bool ages = noted - noted_ > kUsesOfGeneration * rows;
  if (ages) noted_ = noted;
  // If few rows were admitted, the next period may be longer.
  const uint64_t few = static_cast<uint64_t>(tables_.front().most_admitted) * tables_.size() / 4;
  const bool changes = periods_ < 2 || admitted - admitted_ >= few;
  admitted_ = admitted;
  period_ = changes ? kShortestPeriod : std::min(kLongestPeriod, 2 * period_);
  return device_.weights_switch().Enqueue([&](CUstream stream) -> Status {
    FUSEC_RT_TRY(EnqueueAdmission(ages, stream));
    return EnqueueEndOfPeriod(stream);
  });
}

Status CudaRowCaches::EnqueueCopyOfRows(int table, CUdeviceptr ids, int id_bytes, int64_t count,
                                        CUstream stream) const {
  const std::vector<RowCache>& caches = device_.manifest().row_caches;
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (caches[i].table != table) continue;
    CUdeviceptr tables = tables_on_device_.get();
    auto number = static_cast<int>(i), ids_count = static_cast<int>(count);
    void* arguments[] = {&tables, &number, &ids, &id_bytes, &ids_count};
    FUSEC_RT_TRY(Launch(kernels_.copy_rows, {BlocksFor(count * kWarpSize), 1, kBlockSize},
                        arguments, stream));
  }
  return {};
}

Status CudaRowCaches::EnqueueCopyOfAll(CUstream stream) const {
  if (empty()) return {};
  CUdeviceptr tables = tables_on_device_.get();
  void* arguments[] = {&tables};
  return LaunchOfAll(kernels_.copy_all_rows, arguments, stream);
}

std::vector<size_t> CudaRowCaches::CachesOf(const Table& table) const {
  const std::vector<RowCache>& caches = device_.manifest().row_caches;
  std::vector<size_t> found;
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (caches[i].table == table.buffer || caches[i].table == table.factors) found.push_back(i);
  }
  return found;
}

Status CudaRowCaches::Warm(const Table& table, const void* ids, fusec_dtype id_dtype,
                           int64_t count) {
  const std::vector<size_t> caches = CachesOf(table);
  if (caches.empty()) return {};
  const CudaContext& context = device_.context();
  int id_bytes = id_dtype == FUSEC_I32 ? 4 : 8;
  if (!ids_) {
    FUSEC_RT_ASSIGN(ids_, AllocateDevice(context, kIdsOfPiece * sizeof(int64_t), kPurpose));
  }
  for (int64_t first = 0; first < count; first += kIdsOfPiece) {
    const int64_t size = std::min(kIdsOfPiece, count - first);
    const auto* from = static_cast<const std::byte*>(ids) + first * id_bytes;
    FUSEC_RT_TRY(device_.weights_switch().Switch([&](CUstream stream) -> Status {
      FUSEC_RT_TRY(FUSEC_CUDA(context, kPurpose, cuMemcpyHtoDAsync, ids_.get(), from,
                              static_cast<size_t>(size * id_bytes), stream));
      for (const size_t cache : caches) {
        CUdeviceptr tables = tables_on_device_.get(), noted = ids_.get();
        auto number = static_cast<int>(cache), ids_count = static_cast<int>(size);
        void* arguments[] = {&tables, &number, &noted, &id_bytes, &ids_count};
        FUSEC_RT_TRY(
            Launch(kernels_.note_rows, {BlocksFor(size), 1, kBlockSize}, arguments, stream));
      }
      FUSEC_RT_TRY(EnqueueAdmission(false, stream));
      return EnqueueEndOfPeriod(stream);
    }));
  }
  return {};
}

StatusOr<fusec_cache_info> CudaRowCaches::Info(const Table& table) {
  fusec_cache_info info{};
  const std::vector<size_t> caches = CachesOf(table);
  if (caches.empty()) return info;
  FUSEC_RT_TRY(
      device_.weights_switch().Switch([&](CUstream stream) { return EnqueueEndOfPeriod(stream); }));
  const auto* totals = static_cast<const Totals*>(seen_totals_.get());
  for (const size_t cache : caches) {
    const int64_t rows = tables_[cache].set_count * RowCache::kWays;
    info.rows = std::max(info.rows, rows);
    info.bytes += static_cast<size_t>(rows * tables_[cache].row_bytes) + sizeof(Header) +
                  tables_[cache].set_count * kSetBytes;
    info.hits += totals[cache].hits;
    info.misses += totals[cache].misses;
    info.loaded += totals[cache].admitted;
  }
  return info;
}

CUdeviceptr CudaRowCaches::Address(int buffer) const {
  const std::vector<RowCache>& caches = device_.manifest().row_caches;
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (caches[i].cache == buffer) return tables_[i].cache;
    if (caches[i].table == buffer) return tables_[i].bank;
  }
  return 0;
}

}  // namespace fusec::runtime
