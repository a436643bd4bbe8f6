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

// Scrambled, so that neighbours belong to different sets (the finalizer of MurmurHash3).
__device__ __forceinline__ unsigned HashOfRow(unsigned row) {
  row ^= row >> 16;
  row *= 0x85ebca6bu;
  row ^= row >> 13;
  row *= 0xc2b2ae35u;
  return row ^ row >> 16;
}

__device__ __forceinline__ unsigned CacheSetOf(unsigned hash, unsigned set_count) {
  return static_cast<unsigned>(static_cast<unsigned long long>(hash) * set_count >> 32);
}

// Counts a use of a row that the set holds (`way`), or else one of its candidates. A candidate
// yields its place to another row once that one has been seen more often.
__device__ __forceinline__ void NoteUse(RowCacheSet* set, int way, int row, unsigned hash) {
  const int place = static_cast<int>(hash) & (kCacheWays - 1);
  if (way >= 0) {
    atomicAdd(&set->uses[way], 1);
  } else if (set->candidates[place] == row) {
    atomicAdd(&set->candidate_uses[place], 1);
  } else if (atomicAdd(&set->candidate_uses[place], -1) <= 1) {
    atomicExch(&set->candidates[place], row);
    atomicExch(&set->candidate_uses[place], 1);
  }
}

// Where `row` of a table lies, in rows from the address that is given for the table. `cache` is the
// header.
__device__ __forceinline__ long long PlaceOfCachedRow(const int* cache, long long row) {
  const RowCache& header = *reinterpret_cast<const RowCache*>(cache);
  const unsigned set_count = header.set_count;
  if (set_count == 0) return row;
  const int number = static_cast<int>(row);
  const unsigned hash = HashOfRow(static_cast<unsigned>(number));
  const unsigned index = CacheSetOf(hash, set_count);
  const int* set = cache + kCacheHeaderInts + index * (sizeof(RowCacheSet) / sizeof(int));
  const Vector<int, kCacheWays> rows = LoadVector<kCacheWays>(set);
  int way = -1;
#pragma unroll
  for (int i = 0; i < kCacheWays; ++i) way = rows.at[i] == number ? i : way;
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (HashOfRow(thread + header.noting_seed) < header.noting_limit) {
    RowCache* counters = reinterpret_cast<RowCache*>(const_cast<int*>(cache));
    unsigned* counted = way >= 0 ? counters->hits : counters->misses;
    atomicAdd(&counted[thread % kCacheCounters], 1u);
    NoteUse(reinterpret_cast<RowCacheSet*>(const_cast<int*>(set)), way, number, hash);
  }
  return way >= 0 ? static_cast<long long>(index) * kCacheWays + way : header.first_row + row;
}
