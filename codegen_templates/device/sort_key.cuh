// Keys by which elements are sorted.
//
// A key is bits of the value, whose order as an unsigned number is the order wanted, and the place
// of the element, so that no two keys are equal and of equal elements the one with the lower place
// comes first. NaN is greater than every number, and -0 equals 0.

// The bits of a value: a greater value has greater bits.
__device__ __forceinline__ unsigned AscendingBits(float value) {
  constexpr unsigned kSign = 1u << 31;
  if (value != value) return ~0u;
  const unsigned bits = __float_as_uint(value + 0.0f);  // -0 becomes 0
  return bits & kSign ? ~bits : bits | kSign;
}
__device__ __forceinline__ unsigned long long AscendingBits(double value) {
  constexpr long long kSign = 1ll << 63;
  if (value != value) return ~0ull;
  const long long bits = __double_as_longlong(value + 0.0);
  return static_cast<unsigned long long>(bits < 0 ? ~bits : bits | kSign);
}
template <class Integer>
__device__ __forceinline__ auto AscendingBits(Integer value) {
  if constexpr (sizeof(Integer) <= sizeof(int)) {
    constexpr bool kIsSigned = static_cast<Integer>(-1) < static_cast<Integer>(1);
    return static_cast<unsigned>(value) ^ (kIsSigned ? 1u << 31 : 0u);
  } else {
    constexpr bool kIsSigned = static_cast<Integer>(-1) < static_cast<Integer>(1);
    return static_cast<unsigned long long>(value) ^ (kIsSigned ? 1ull << 63 : 0ull);
  }
}

// The bits of a value by which it is sorted: in descending order if kLargest holds.
template <bool kLargest, class T>
__device__ __forceinline__ auto SortBits(T value) {
  const auto bits = AscendingBits(value);
  return kLargest ? ~bits : bits;
}

// The keys of values of up to 32 bits, and of 64 bits. kNoElement comes after all elements.
struct SortKey32 {
  unsigned long long bits;  // those of the value, then those of the place
};
struct SortKey64 {
  unsigned long long bits;
  unsigned place;
};
__device__ __forceinline__ unsigned PlaceOf(SortKey32 key) {
  return static_cast<unsigned>(key.bits);
}
__device__ __forceinline__ unsigned PlaceOf(SortKey64 key) { return key.place; }
__device__ __forceinline__ bool ComesBefore(SortKey32 a, SortKey32 b) { return a.bits < b.bits; }
__device__ __forceinline__ bool ComesBefore(SortKey64 a, SortKey64 b) {
  return a.bits < b.bits || (a.bits == b.bits && a.place < b.place);
}
constexpr unsigned kNoPlace = ~0u;
constexpr unsigned long long kLastBits = ~0ull;  // of any type: no bits are greater
__device__ __forceinline__ SortKey32 KeyOf(unsigned bits, unsigned place) {
  return {static_cast<unsigned long long>(bits) << 32 | place};
}
__device__ __forceinline__ SortKey64 KeyOf(unsigned long long bits, unsigned place) {
  return {bits, place};
}
template <class Key>
__device__ __forceinline__ Key NoElement() {
  if constexpr (sizeof(Key) == sizeof(SortKey32)) {
    return {~0ull};
  } else {
    return {~0ull, kNoPlace};
  }
}
