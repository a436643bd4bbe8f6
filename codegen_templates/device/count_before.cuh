// Searches in sorted elements.

// A value in memory as one that sort_key.cuh compares: a 16-bit float as a float.
template <class T>
__device__ __forceinline__ auto Comparable(T value, int) -> decltype(ToFloat(value)) {
  return ToFloat(value);
}
template <class T>
__device__ __forceinline__ T Comparable(T value, long) {
  return value;
}

// How many of `count` sorted elements, `stride` apart, come before those with `bits` (SortBits); if
// `or_equal`, equal ones count as well.
template <bool kLargest, class T, class Bits, class Int>
__device__ __forceinline__ Int CountBefore(const T* sorted, Int stride, Int count, Bits bits,
                                           bool or_equal) {
  const auto comes_before = [&](Int at) {
    const Bits here = SortBits<kLargest>(Comparable(sorted[at * stride], 0));
    return here < bits || (or_equal && here == bits);
  };
  // All or none of them, as among lines that were in order.
  if (count == 0 || !comes_before(0)) return 0;
  if (comes_before(count - 1)) return count;
  Int low = 0;
  while (count > 0) {
    const Int half = count / 2;
    if (comes_before(low + half)) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low;
}
