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

// The caches of rows of a program on a GPU (codegen_templates/device/row_cache.cuh). A table that
// has one lies in host memory; kernels are given the address of the bank of copies as the table's,
// which lies a multiple of a row away from the table, so that the place of a row is a number
// whichever memory it is in. Runs count what they read, as far as they note it. After some runs, a
// period, rows that were used often take the places of others: a switch of weights
// (weights_switch.h), so that each run sees the cache as it was when the run began.
//
// One thread at a time changes it; Ended and Address are for any.
class CudaRowCaches {
 public:
  explicit CudaRowCaches(CudaDevice& device) : device_(device) {}
  ~CudaRowCaches();  // waits for what is still under way

  // Allocates empty caches for those of the manifest. Needs the context to be current, as all do.
  Status Create();
  bool empty() const { return memory_.empty(); }
  // What kernels are given in the place of a buffer: for the constant of a cache and for its table;
  // 0 for others.
  CUdeviceptr Address(int buffer) const;
  size_t bytes() const { return bytes_; }

  // A run was enqueued. Whether it was the last one of a period, which EndPeriod then ends.
  bool Ended() { return ++runs_ >= period_; }
  Status EndPeriod();

  // Enqueues on a stream of a switch that rows which a table's cache holds are copied again: those
  // of `count` ids in device memory, or all.
  Status EnqueueCopyOfRows(int table, CUdeviceptr ids, int id_bytes, int64_t count,
                           CUstream stream) const;
  Status EnqueueCopyOfAll(CUstream stream) const;

  // As Device has them.
  Status Warm(const Table& table, const void* ids, fusec_dtype id_dtype, int64_t count);
  StatusOr<fusec_cache_info> Info(const Table& table);

 private:
  // As row_cache.cu declares them.
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
  // With a warp for each set of each cache.
  Status LaunchOfAll(CUfunction kernel, void** arguments, CUstream stream) const;
  unsigned BlocksOfSets() const;
  Status EnqueueAdmission(bool ages, CUstream stream);
  Status EnqueueEndOfPeriod(CUstream stream);
  std::vector<size_t> CachesOf(const Table& table) const;  // numbers

  CudaDevice& device_;
  CudaModule module_;
  Kernels kernels_;
  std::vector<DeviceMemory> memory_;  // by cache of the manifest
  std::vector<CachedTable> tables_;   // likewise
  DeviceMemory tables_on_device_, totals_;
  PinnedMemory seen_totals_;  // those of an earlier period
  DeviceMemory ids_;          // of Warm
  size_t bytes_ = 0;

  static constexpr int64_t kShortestPeriod = 4, kLongestPeriod = 512;  // runs
  std::atomic<int64_t> runs_ = 0, period_ = kShortestPeriod;
  uint64_t admitted_ = 0;  // rows, when the last period ended
  uint64_t noted_ = 0;     // uses, when all counts were last halved
  uint64_t periods_ = 0;
};

}  // namespace fusec::runtime
