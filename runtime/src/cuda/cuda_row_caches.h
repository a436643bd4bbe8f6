#pragma once

#include <fusec/fusec.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "runtime/src/artifact/row_cache.h"
#include "runtime/src/artifact/table.h"
#include "runtime/src/cuda/cuda_context.h"

namespace fusec::runtime {

class CudaDevice;

// The row caches of a program on a GPU (codegen_templates/device/row_cache.cuh), for tables in host
// memory. Kernels get the address of the bank of cached rows instead of the table's. The distance
// between the bank and the table is a multiple of a row, so that one row number can address a row
// in either memory. Runs count a sample of the rows that they read. After a period, which is a
// number of runs, often used rows replace others. This is ordered like a switch of weights
// (weights_switch.h), so that each run sees the cache as it was when the run began.
//
// One thread at a time changes the caches; any thread may call Ended and Address.
class CudaRowCaches {
 public:
  explicit CudaRowCaches(CudaDevice& device) : device_(device) {}
  ~CudaRowCaches();  // waits for changes that have not finished

  // Allocates empty caches for those of the manifest. The context must be current, as for all
  // functions.
  Status Create();
  bool empty() const { return memory_.empty(); }
  // The address that kernels get for the constant of a cache or for its table; 0 for other buffers.
  CUdeviceptr Address(int buffer) const;
  size_t bytes() const { return bytes_; }

  // Called after a run was enqueued. Returns whether it was the last one of its period; EndPeriod
  // must then be called.
  bool Ended() { return ++runs_ >= period_; }
  Status EndPeriod();

  // Enqueue, on the stream of a switch, copies of the table's rows that refresh a cache: of the
  // cached rows among `count` ids in device memory, or of all cached rows.
  Status EnqueueCopyOfRows(int table, CUdeviceptr ids, int id_bytes, int64_t count,
                           CUstream stream) const;
  Status EnqueueCopyOfAll(CUstream stream) const;

  // As Device::WarmTable and Device::TableCache.
  Status Warm(const Table& table, const void* ids, fusec_dtype id_dtype, int64_t count);
  StatusOr<fusec_cache_info> Info(const Table& table);

 private:
  // These structs have the layout that row_cache.cu declares.
  struct CachedTable {
    CUdeviceptr cache, table, bank;
    int64_t row_bytes;
    uint32_t set_count, most_admitted;
  };
  struct Totals {
    uint64_t hits, misses, admitted;
  };
  struct Kernels {
    CUfunction empty_sets = nullptr, note_rows = nullptr, admit_rows = nullptr,
               end_period = nullptr, copy_all_rows = nullptr, copy_rows = nullptr;
  };

  struct Grid {
    unsigned x, y, threads;
  };

  StatusOr<CachedTable> Allocate(const RowCache& cache);
  Status AcquireKernels();
  Status Launch(CUfunction kernel, const Grid& grid, void** arguments, CUstream stream) const;
  // Launches a kernel with one warp for each set of each cache.
  Status LaunchOfAll(CUfunction kernel, void** arguments, CUstream stream) const;
  unsigned BlocksOfSets() const;
  Status EnqueueAdmission(bool ages, CUstream stream);
  Status EnqueueEndOfPeriod(CUstream stream);
  std::vector<size_t> CachesOf(const Table& table) const;  // indices of its caches

  CudaDevice& device_;
  CudaModule module_;
  Kernels kernels_;
  std::vector<DeviceMemory> memory_;  // by cache of the manifest
  std::vector<CachedTable> tables_;   // by cache of the manifest
  DeviceMemory tables_on_device_, totals_;
  PinnedMemory seen_totals_;  // totals of an earlier period
  DeviceMemory ids_;          // the ids of Warm
  size_t bytes_ = 0;

  static constexpr int64_t kShortestPeriod = 4, kLongestPeriod = 512;  // runs
  std::atomic<int64_t> runs_ = 0, period_ = kShortestPeriod;
  uint64_t admitted_ = 0;  // admitted rows at the end of the last period
  uint64_t noted_ = 0;     // counted uses when all counts were last halved
  uint64_t periods_ = 0;
};

}  // namespace fusec::runtime
