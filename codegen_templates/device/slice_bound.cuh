// Where a slice of `count` rows begins or ends. A negative bound counts from the end, and a bound
// out of range moves to the nearest row.
__device__ __forceinline__ long long SliceBound(long long bound, long long count) {
  const long long place = bound < 0 ? bound + count : bound;
  return place < 0 ? 0 : place < count ? place : count;
}
