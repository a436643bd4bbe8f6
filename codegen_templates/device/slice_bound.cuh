// The row at which a slice of a tensor with `count` rows begins or ends. A negative bound counts
// from the end; a bound out of range is clamped to 0..count.
__device__ __forceinline__ long long SliceBound(long long bound, long long count) {
  const long long place = bound < 0 ? bound + count : bound;
  return place < 0 ? 0 : place < count ? place : count;
}
