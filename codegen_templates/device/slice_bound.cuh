// Where a slice of `count` rows begins or ends: a negative bound counts from the end, and what lies
// outside is moved to the nearest row.
__device__ __forceinline__ long long SliceBound(long long bound, long long count) {
  const long long place = bound < 0 ? bound + count : bound;
  return place < 0 ? 0 : place < count ? place : count;
}
