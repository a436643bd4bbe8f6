// A cache of a table's rows. The table lies in the memory of the host; of the rows that are looked
// up often the GPU has copies in a bank. Kernels are given the address of the bank as that of the
// table: the place of a row, in rows from there, is that of its copy or, far outside the bank, its
// own. A row's number decides which of the cache's sets may hold it.
//
// Runs read which rows a set holds, and note the use of some of the rows that they read. Only
// between runs do rows come and go (codegen_templates/runtime/row_cache.cu).
constexpr int kCacheWays = 8;  // rows of a set

struct RowCacheSet {
  int rows[kCacheWays];            // -1: none
  int uses[kCacheWays];            // of these, as far as they were noted
  int candidates[kCacheWays];      // other rows that were used, -1: none
  int candidate_uses[kCacheWays];
};

constexpr int kCacheCounters = 64;  // so that few threads count in the same place

struct RowCache {
  long long first_row;    // the place of the table's row 0
  unsigned set_count;     // 0: without a bank, and rows are read where they lie
  unsigned noting_limit;  // of 2^32 threads, how many note what they use
  unsigned noting_seed;   // which ones
  unsigned admitted;      // rows since the last period
  unsigned reserved[26];
  unsigned hits[kCacheCounters], misses[kCacheCounters];  // as far as they were noted
};
// The sets lie behind the header.
constexpr int kCacheHeaderInts = sizeof(RowCache) / sizeof(int);
constexpr int kCacheSetInts = sizeof(RowCacheSet) / sizeof(int);  // one for each lane of a warp

// Scrambled, so that neighbours belong to different sets (the finalizer of MurmurHash3).
__device__ __forceinline__ unsigned HashOfRow(unsigned row) {
  row ^= row >> 16;
  row *= 0x85ebca6bu;
  row ^= row >> 13;
  row *= 0xc2b2ae35u;
  return row ^ row >> 16;
}

// Where a cache may hold a row, and whether it does.
struct CachePlace {
  int row;
  unsigned hash, set;
  int way;  // -1: the set does not hold it
  // Of the copy, in rows from the bank's beginning.
  __device__ __forceinline__ long long in_bank() const {
    return static_cast<long long>(set) * kCacheWays + way;
  }
};

// `cache` is the header, with sets behind it.
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

// Counts a use of a row that the set holds, or else of one of its candidates. A candidate yields its
// place to another row once that one has been seen more often.
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

// Where `row` of a table lies, in rows from the address that is given for the table.
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
