// ---- from codegen_templates/runtime/row_cache.cu ----
// The kernels that change row caches (device/row_cache.cuh) between runs. empty_sets initializes a
// cache; note_rows counts uses of ids that are known to be looked up; admit_rows and then
// end_period run periodically; copy_all_rows or copy_rows run after rows of the table have changed.

// A cache, and the table whose rows it holds. The sets follow the header.
struct CachedTable {
  RowCache* cache;
  const unsigned char* table;
  unsigned char* bank;
  long long row_bytes;
  unsigned set_count;
  unsigned most_admitted;  // rows per period
};

// The counts of a cache since it was made.
struct CacheTotals {
  unsigned long long hits, misses, admitted;
};

constexpr unsigned kWholeWarp = 0xffffffffu;

__device__ __forceinline__ int* SetOf(const CachedTable& table, unsigned set) {
  return const_cast<int*>(CacheSetAt(reinterpret_cast<const int*>(table.cache), set));
}

__device__ __forceinline__ CachePlace FindRow(const CachedTable& table, long long row) {
  return FindRow(reinterpret_cast<const int*>(table.cache), table.set_count, row);
}

template <class Word>
__device__ __forceinline__ void CopyWords(const unsigned char* from, unsigned char* to,
                                          long long count, int lane) {
  for (long long i = lane; i < count; i += 32)
    reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
}

// Copies a row of the table to a place of the bank, with one warp.
__device__ __forceinline__ void CopyRow(const CachedTable& table, long long row, long long place,
                                        int lane) {
  const unsigned char* from = table.table + row * table.row_bytes;
  unsigned char* to = table.bank + place * table.row_bytes;
  if (table.row_bytes % 16 == 0)
    CopyWords<uint4>(from, to, table.row_bytes / 16, lane);
  else if (table.row_bytes % 4 == 0)
    CopyWords<unsigned>(from, to, table.row_bytes / 4, lane);
  else
    CopyWords<unsigned char>(from, to, table.row_bytes, lane);
}

// The lane with the greatest `value`, the first one if several are equal.
__device__ __forceinline__ int LaneOfMaximum(int value) {
  int most = value;
  for (int step = 16; step > 0; step /= 2) most = max(most, __shfl_xor_sync(kWholeWarp, most, step));
  return __ffs(static_cast<int>(__ballot_sync(kWholeWarp, value == most))) - 1;
}

// Empties all sets, with one thread for each int of a set.
extern "C" __global__ void __launch_bounds__(256) empty_sets(const CachedTable* tables) {
  const CachedTable table = tables[blockIdx.y];
  const unsigned set = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (set >= table.set_count) return;
  const bool is_row = lane / kCacheWays % 2 == 0;
  SetOf(table, set)[lane] = is_row ? -1 : 0;
}

// Counts a use of each id, with one thread per id.
extern "C" __global__ void __launch_bounds__(256)
note_rows(const CachedTable* tables, int number, const void* ids, int id_bytes, int count) {
  const CachedTable table = tables[number];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  NoteUse(reinterpret_cast<const int*>(table.cache), FindRow(table, IdAt(ids, id_bytes, i)));
}

// Replaces rows of the sets by candidates that were used more often, as long as the period may
// still admit rows. It runs with one warp per set and one lane for each int of the set. `first_set`
// varies between calls so that all sets get their turn. If `ages` is not 0, all counts of uses are
// halved afterwards.
extern "C" __global__ void __launch_bounds__(256)
admit_rows(const CachedTable* tables, unsigned first_set, int ages) {
  const CachedTable table = tables[blockIdx.y];
  const unsigned number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (number >= table.set_count) return;
  const unsigned set =
      static_cast<unsigned>((number + static_cast<unsigned long long>(first_set)) % table.set_count);
  const int lane = threadIdx.x % 32;
  const bool counts_row = lane / kCacheWays == 1, counts_candidate = lane / kCacheWays == 3;
  int word = SetOf(table, set)[lane];
  for (int n = 0; n < kCacheWays; ++n) {
    const int row_of_count = __shfl_up_sync(kWholeWarp, word, kCacheWays);
    // An empty place is taken before any row is replaced.
    const int of_row = !counts_row ? -2147483647 - 1 : row_of_count < 0 ? 2147483647 : -word;
    const int of_candidate = counts_candidate && row_of_count >= 0 ? word : 0;
    const int most = LaneOfMaximum(of_candidate), least = LaneOfMaximum(of_row);
    const int uses = __shfl_sync(kWholeWarp, of_candidate, most);
    const int row = __shfl_sync(kWholeWarp, word, most - kCacheWays);
    const int old_row = __shfl_sync(kWholeWarp, word, least - kCacheWays);
    const int old_uses = __shfl_sync(kWholeWarp, word, least);
    if (uses <= 0 || (old_row >= 0 && uses <= old_uses)) break;
    // The row may be in the set already: two threads may have made it a candidate in two places.
    const bool is_there = __any_sync(kWholeWarp, lane < kCacheWays && word == row);
    if (!is_there) {
      unsigned admitted = 0;
      if (lane == 0) admitted = atomicAdd(&table.cache->admitted, 1u);
      if (__shfl_sync(kWholeWarp, admitted, 0) >= table.most_admitted) break;
      CopyRow(table, row, static_cast<long long>(set) * kCacheWays + least - kCacheWays, lane);
    }
    if (lane == most) word = 0;
    if (lane == most - kCacheWays) word = -1;
    if (lane == least && !is_there) word = uses;
    if (lane == least - kCacheWays && !is_there) word = row;
  }
  if (ages != 0 && (counts_row || counts_candidate)) word = word > 0 ? word / 2 : 0;
  SetOf(table, set)[lane] = word;
}

// Adds the counters to the totals and clears them, with one thread per counter. Then it sets which
// threads of the next runs count their uses.
extern "C" __global__ void __launch_bounds__(64)
end_period(const CachedTable* tables, CacheTotals* totals, unsigned noting_limit,
           unsigned noting_seed) {
  const CachedTable table = tables[blockIdx.x];
  RowCache& cache = *table.cache;
  CacheTotals& total = totals[blockIdx.x];
  const int i = threadIdx.x;
  atomicAdd(&total.hits, static_cast<unsigned long long>(cache.hits[i]));
  atomicAdd(&total.misses, static_cast<unsigned long long>(cache.misses[i]));
  cache.hits[i] = cache.misses[i] = 0;
  if (i != 0) return;
  total.admitted += min(cache.admitted, table.most_admitted);
  cache.admitted = 0;
  cache.noting_limit = noting_limit;
  cache.noting_seed = noting_seed;
}

// Copies all rows that the sets hold from the table again, with one warp per set.
extern "C" __global__ void __launch_bounds__(256) copy_all_rows(const CachedTable* tables) {
  const CachedTable table = tables[blockIdx.y];
  const unsigned set = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (set >= table.set_count) return;
  for (int way = 0; way < kCacheWays; ++way) {
    const int row = SetOf(table, set)[way];
    if (row >= 0)
      CopyRow(table, row, static_cast<long long>(set) * kCacheWays + way, threadIdx.x % 32);
  }
}

// Copies the rows `ids` from the table again if the cache holds them, with one warp per id.
extern "C" __global__ void __launch_bounds__(256)
copy_rows(const CachedTable* tables, int number, const void* ids, int id_bytes, int count) {
  const CachedTable table = tables[number];
  const int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (i >= count) return;
  const CachePlace place = FindRow(table, IdAt(ids, id_bytes, i));
  if (place.way >= 0) CopyRow(table, place.row, place.in_bank(), threadIdx.x % 32);
}
