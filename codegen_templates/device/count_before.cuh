// Searches in sorted elements.

// A value in memory as one that can be compared: a 16-bit float as a float.
template <class T>
__device__ __forceinline__ auto Comparable(T value, int) -> decltype(ToFloat(value)) {
  return ToFloat(value);
}
template <class T>
__device__ __forceinline__ T Comparable(T value, long) {
  return value;
}

// Whether `a` comes before `b` in a sorted line.
template <bool kLargest, class T>
__device__ __forceinline__ bool IsFirst(T a, T b) {
  return kLargest ? IsAbove(a, b) : IsAbove(b, a);
}

// How many of `count` sorted elements, `stride` apart, come before an element with `value`; if
// kOrEqual holds, equal ones count as well.
template <bool kLargest, bool kOrEqual, class T, class Int, class Count, class Value>
__device__ __forceinline__ Count CountBefore(const T* sorted, Int stride, Count count,
                                             Value value) {
  const auto comes_before = [&](Count at) {
    const Value here = Comparable(sorted[at * stride], 0);
    return kOrEqual ? !IsFirst<kLargest>(value, here) : IsFirst<kLargest>(here, value);
  };
  // All or none of them, as among lines that were in order.
  if (count == 0 || !comes_before(0)) return 0;
  if (comes_before(count - 1)) return count;
  Count low = 0;
  while (count > 0) {
    const Count half = count / 2;
    if (comes_before(low + half)) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low;
}

// The same, if it is known that at least bounds[0] and at most bounds[1] do.
template <bool kLargest, bool kOrEqual, class T, class Int, class Value>
__device__ __forceinline__ int CountBetween(const T* sorted, Int stride, const int* bounds,
                                            Value value) {
  const int low = bounds[0];
  return low + CountBefore<kLargest, kOrEqual>(sorted + low * stride, stride, bounds[1] - low,
                                               value);
}
