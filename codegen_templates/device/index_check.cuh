// The first out-of-range index of a call. Site 0 means that there was none.
struct IndexError {
  int site;
  int reserved;
  long long position, value, extent;
};

// Records a bad index if it is the first one of the call.
__device__ __forceinline__ void ReportIndex(long long value, long long extent, IndexError* error,
                                            int site, long long position) {
  if (atomicCAS(&error->site, 0, site) == 0) {
    error->position = position;
    error->value = value;
    error->extent = extent;
  }
}

// `value` as an index into `extent` elements; a negative index counts from the end. An index out of
// range is reported and replaced by 0.
__device__ __forceinline__ long long CheckedIndex(long long value, long long extent,
                                                  IndexError* error, int site, long long position) {
  const long long index = value < 0 ? value + extent : value;
  if (index >= 0 && index < extent) return index;
  ReportIndex(value, extent, error, site, position);
  return 0;
}

// The first out-of-range index that a thread finds in a loop. It is reported after the loop: an
// atomic operation between the loads of two iterations would keep the compiler from overlapping
// them.
struct BadIndex {
  long long value = 0, position = -1;  // -1: there was none
};

// Like CheckedIndex, but an index out of range is recorded in `bad`, if it is the first, instead of
// reported.
__device__ __forceinline__ long long NotedIndex(long long value, long long extent, BadIndex& bad,
                                                long long position) {
  const long long index = value < 0 ? value + extent : value;
  const bool is_good = index >= 0 && index < extent;
  if (!is_good && bad.position < 0) bad = {value, position};
  return is_good ? index : 0;
}

__device__ __forceinline__ void ReportNoted(const BadIndex& bad, long long extent,
                                            IndexError* error, int site) {
  if (bad.position >= 0) ReportIndex(bad.value, extent, error, site, bad.position);
}

// `value` as the number of one of `extent` slots, or -1 for no slot. Any other value is reported,
// if it is the first of the call, and replaced by -1.
__device__ __forceinline__ long long CheckedSlot(long long value, long long extent,
                                                 IndexError* error, int site, long long position) {
  if (value >= -1 && value < extent) return value;
  ReportIndex(value, extent, error, site, position);
  return -1;
}

// `value` as a length of at most `extent`. A negative or greater value is reported, if it is the
// first of the call, and replaced by 0.
__device__ __forceinline__ long long CheckedLength(long long value, long long extent,
                                                   IndexError* error, int site,
                                                   long long position) {
  if (value >= 0 && value <= extent) return value;
  ReportIndex(value, extent, error, site, position);
  return 0;
}
