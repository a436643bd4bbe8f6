// Neighbouring elements, which are loaded and stored by one instruction per 16 bytes. They must be
// aligned to their size, or to 16 bytes if they are larger.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Vector {
  T at[kCount];
};

// Loads kCount neighbours.
template <int kCount, class T>
__device__ __forceinline__ Vector<T, kCount> LoadVector(const T* place) {
  return *reinterpret_cast<const Vector<T, kCount>*>(place);
}

// Stores neighbours to global memory.
template <class T, int kCount>
__device__ __forceinline__ void StoreVector(T* __restrict__ place, const Vector<T, kCount>& value) {
#ifdef __CUDACC__
  // The compiler alone would store small elements at 64-bit positions 4 bytes at a time.
  if constexpr (sizeof(value) == 16) {
    unsigned words[4];
    memcpy(words, &value, sizeof(words));
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(place)),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]));
    return;
  }
#endif
  *reinterpret_cast<Vector<T, kCount>*>(place) = value;
}

// Stores neighbours to shared memory.
template <class Word, class T, int kCount>
__device__ __forceinline__ void KeepVector(Word* place, const Vector<T, kCount>& value) {
  *reinterpret_cast<Vector<T, kCount>*>(place) = value;
}
