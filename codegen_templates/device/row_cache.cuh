// A set-associative cache of a table's rows. The table is in host memory; a bank in GPU memory
// holds copies of the rows that are looked up often. Kernels get the address of the bank as the
// address of the table. Relative to that address, the place of a row (counted in rows) is either
// the place of its copy in the bank or, far outside of the bank, the place of the row in host
// memory. The hash of a row's number selects the set of the cache that may hold it.
//
// A run reads which rows a set holds, and counts the uses of a sample of the rows that it reads.
// Rows enter and leave the cache only between runs (codegen_templates/runtime/row_cache.cu).
constexpr int kCacheWays = 8;  // rows per set

struct RowCacheSet {
  int rows[kCacheWays];        // -1: an empty place
  int uses[kCacheWays];        // the sampled uses of these rows
  int candidates[kCacheWays];  // rows that may enter, -1: none
  int candidate_uses[kCacheWays];
};

constexpr int kCacheCounters = 64;  // many, so that few threads add to the same one

struct RowCache {
  long long first_row;    // the place of row 0 of the table
  unsigned set_count;     // 0: no bank; all rows are read from the table
  unsigned noting_limit;  // how many of 2^32 threads count their uses
  unsigned noting_seed;   // selects which threads these are
  unsigned admitted;      // rows that entered in this period
  unsigned reserved[26];
  unsigned hits[kCacheCounters], misses[kCacheCounters];  // sampled
};
// The sets follow the header.
constexpr int kCacheHeaderInts = sizeof(RowCache) / sizeof(int);
constexpr int kCacheSetInts = sizeof(RowCacheSet) / sizeof(int);  // one for each lane of a warp

// A hash (the finalizer of MurmurHash3), so that consecutive rows belong to different sets.
__device__ __forceinline__ unsigned HashOfRow(unsigned row) {
  row ^= row >> 16;
  row *= 0x85ebca6bu;
  row ^= row >> 13;
  row *= 0xc2b2ae35u;
  return row ^ row >> 16;
}

// The set that may hold a row, and whether it does.
struct CachePlace {
  int row;
  unsigned hash, set;
  int way;  // -1: the set does not hold it
  // The place of the copy, in rows from the beginning of the bank.
  __device__ __forceinline__ long long in_bank() const {
    return static_cast<long long>(set) * kCacheWays + way;
  }
};

// `cache` points to the header, which the sets follow.
__device__ __forceinline__ const int* CacheSetAt(const int* cache, unsigned set) {
  return cache + kCacheHeaderInts + static_cast<long long>(set) * kCacheSetInts;
}

__device__ __forceinline__ CachePlace FindRow(const int* cache, unsigned set_count,
                                              long long row) {
  const int number = static_cast<int>(row);
  const unsigned hash = HashOfRow(static_cast<unsigned>(number));
  const unsigned set =
      static_cast<unsigned>(static_cast<unsigned long long>(hash) * set_count >> 32);
  const Vector<int, kCacheWays> rows = LoadVector<kCacheWays>(CacheSetAt(cache, set));
  int way = -1;
#pragma unroll
  for (int i = 0; i < kCacheWays; ++i) way = rows.at[i] == number ? i : way;
  return {number, hash, set, way};
}

// Counts a use of a row, whether the set holds it or it is only a candidate. A use of any other row
// lowers the count of the candidate at its place; when the count is used up, that row becomes the
// candidate.
__device__ __forceinline__ void NoteUse(const int* cache, const CachePlace& place) {
  auto* set = reinterpret_cast<RowCacheSet*>(const_cast<int*>(CacheSetAt(cache, place.set)));
  const int candidate = static_cast<int>(place.hash) & (kCacheWays - 1);
  if (place.way >= 0) {
    atomicAdd(&set->uses[place.way], 1);
  } else if (set->candidates[candidate] == place.row) {
    atomicAdd(&set->candidate_uses[candidate], 1);
  } else if (atomicAdd(&set->candidate_uses[candidate], -1) <= 1) {
    atomicExch(&set->candidates[candidate], place.row);
    atomicExch(&set->candidate_uses[candidate], 1);
  }
}

// The place of row `row` of the table, in rows from the address that the kernel got for the table.
__device__ __forceinline__ long long PlaceOfCachedRow(const int* cache, long long row) {
  const RowCache& header = *reinterpret_cast<const RowCache*>(cache);
  const unsigned set_count = header.set_count;
  if (set_count == 0) return row;
  const CachePlace place = FindRow(cache, set_count, row);
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (HashOfRow(thread + header.noting_seed) < header.noting_limit) {
    RowCache* counters = reinterpret_cast<RowCache*>(const_cast<int*>(cache));
    unsigned* counted = place.way >= 0 ? counters->hits : counters->misses;
    atomicAdd(&counted[thread % kCacheCounters], 1u);
    NoteUse(cache, place);
  }
  return place.way >= 0 ? place.in_bank() : header.first_row + row;
}
