// Neighbouring elements that are loaded and stored by one instruction per 16 bytes; their place must
// be a multiple of their size, or of 16 bytes.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Vector {
  T at[kCount];
};

template <int kCount, class T>
__device__ __forceinline__ Vector<T, kCount> LoadVector(const T* __restrict__ place) {
  return *reinterpret_cast<const Vector<T, kCount>*>(place);
}

template <class T, int kCount>
__device__ __forceinline__ void StoreVector(T* __restrict__ place, const Vector<T, kCount>& value) {
  *reinterpret_cast<Vector<T, kCount>*>(place) = value;
}
