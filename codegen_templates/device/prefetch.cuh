// Prefetches for kernels of the CPU.

// `value` as an index into `extent` elements; a negative index counts from the end. 0 if it is out
// of range: it is reported where it is used.
__device__ __forceinline__ long long IndexOrZero(long long value, long long extent) {
  const long long index = value < 0 ? value + extent : value;
  return index >= 0 && index < extent ? index : 0;
}

// Asks for `count` elements from `first` on.
template <class T>
__device__ __forceinline__ void PrefetchElements(const T* first, long long count) {
#ifndef __CUDACC__
  constexpr long long kLineBytes = 64;
  const char* begin = reinterpret_cast<const char*>(first);
  const long long bytes = count * static_cast<long long>(sizeof(T));
  for (long long at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(begin + at, 0, 2);
#endif
}
