// Sorts of up to a few thousand keys by a block.

// Exchanges keys with another lane of the warp.
__device__ __forceinline__ SortKey32 KeyOfLane(SortKey32 key, int distance) {
  return {__shfl_xor_sync(~0u, key.bits, distance)};
}
__device__ __forceinline__ SortKey64 KeyOfLane(SortKey64 key, int distance) {
  return {__shfl_xor_sync(~0u, key.bits, distance), __shfl_xor_sync(~0u, key.place, distance)};
}

// The steps of a bitonic network for distances of kDistance, kDistance / 2, ..., 1, within the keys
// of a thread: those of each pair are put in order, or in reverse order where the bit `descending`
// of the key's number is set.
template <int kDistance, int kOwn, class Key>
__device__ __forceinline__ void OrderOwnKeys(Key (&own)[kOwn], unsigned descending) {
  if constexpr (kDistance > 0) {
    #pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if ((i & kDistance) != 0) continue;
      const Key a = own[i], b = own[i + kDistance];
      const bool ascends = ((threadIdx.x * kOwn + i) & descending) == 0;
      const bool swaps = ComesBefore(b, a) == ascends;
      own[i] = swaps ? b : a;
      own[i + kDistance] = swaps ? a : b;
    }
    OrderOwnKeys<kDistance / 2>(own, descending);
  }
}
// Sorts runs of kSize, 2 * kSize, ... keys within those of a thread.
template <int kSize, int kPart, int kOwn, class Key>
__device__ __forceinline__ void SortOwnRuns(Key (&own)[kOwn]) {
  if constexpr (kSize <= kOwn) {
    OrderOwnKeys<kSize / 2>(own, kSize == kPart ? 0 : kSize);
    SortOwnRuns<2 * kSize, kPart>(own);
  }
}

// Sorts each part of kPart keys of a block. Thread t holds the keys t * kOwn, ..., of which all
// threads together have a multiple of kPart; kPart is a power of two, and at least kOwn. A bitonic
// network: runs of `size` keys, of which every second one descends, are merged. Keys move between
// the registers of a thread, by shuffles between the threads of a warp, and through `exchange`, in
// shared memory, which has room for kTogether keys of each thread.
template <int kPart, int kTogether, int kOwn, class Key>
__device__ void SortParts(Key (&own)[kOwn], Key* exchange) {
  constexpr int kWarpKeys = 32 * kOwn;
  SortOwnRuns<2, kPart>(own);
  for (int size = 2 * kOwn; size <= kPart; size *= 2) {
    const unsigned descending = size == kPart ? 0 : size;
    const bool ascends = ((threadIdx.x * kOwn) & descending) == 0;
    for (int distance = size / 2; distance >= kOwn; distance /= 2) {
      const int threads = distance / kOwn;
      const bool keeps_first = ((threadIdx.x & threads) == 0) == ascends;
      if (distance < kWarpKeys) {
        #pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          const Key other = KeyOfLane(own[i], threads);
          if (ComesBefore(other, own[i]) == keeps_first) own[i] = other;
        }
      } else {
        #pragma unroll
        for (int first = 0; first < kOwn; first += kTogether) {
          __syncthreads();
          #pragma unroll
          for (int i = 0; i < kTogether; ++i)
            exchange[i * blockDim.x + threadIdx.x] = own[first + i];
          __syncthreads();
          #pragma unroll
          for (int i = 0; i < kTogether; ++i) {
            const Key other = exchange[i * blockDim.x + (threadIdx.x ^ threads)];
            if (ComesBefore(other, own[first + i]) == keeps_first) own[first + i] = other;
          }
        }
      }
    }
    OrderOwnKeys<kOwn / 2>(own, descending);
  }
}
