// Consecutive elements, which are loaded and stored with one instruction per 16 bytes. They must be
// aligned to their total size, or to 16 bytes if it is larger.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Vector {
  T at[kCount];
};

// Loads kCount consecutive elements.
template <int kCount, class T>
__device__ __forceinline__ Vector<T, kCount> LoadVector(const T* place) {
  return *reinterpret_cast<const Vector<T, kCount>*>(place);
}

// Stores consecutive elements to global memory.
template <class T, int kCount>
__device__ __forceinline__ void StoreVector(T* __restrict__ place, const Vector<T, kCount>& value) {
#ifdef __CUDACC__
  // Without this, the compiler stores small elements at 64-bit indices 4 bytes at a time.
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

// Stores consecutive elements to shared memory.
template <class Word, class T, int kCount>
__device__ __forceinline__ void KeepVector(Word* place, const Vector<T, kCount>& value) {
  *reinterpret_cast<Vector<T, kCount>*>(place) = value;
}

// Copies the bits of consecutive elements into words of 32 bits.
template <int kCount, class T, int kWords>
__device__ __forceinline__ void ToWords(const Vector<T, kCount>& vector,
                                        unsigned (&words)[kWords]) {
  static_assert(sizeof(vector) == sizeof(words));
#ifdef __CUDACC__
  memcpy(words, &vector, sizeof(words));
#else
  __builtin_memcpy(words, &vector, sizeof(words));
#endif
}
