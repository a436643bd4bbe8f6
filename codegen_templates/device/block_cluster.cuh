// Split-K across the blocks of a cluster: each block computes a part of every sum of a tile and
// reads the other blocks' parts from their shared memory. Below compute capability 9.0 there are no
// clusters, and each block computes whole sums.

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#undef __cluster_dims__
#define __cluster_dims__(...)
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr bool kHasClusters = true;

// Waits for all threads of the cluster and makes their writes to shared memory visible.
__device__ __forceinline__ void AwaitCluster() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}

// Waits until no thread of the cluster reads the shared memory of another block anymore. A block
// must not exit earlier, because its shared memory would be released.
__device__ __forceinline__ void LeaveCluster() {
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;\n"
      "barrier.cluster.wait.aligned;" ::
          : "memory");
}

// Loads kCount consecutive elements from the shared memory of block number `block` of the cluster.
// `own` is the corresponding address in the shared memory of this block.
template <int kCount>
__device__ __forceinline__ Vector<float, kCount> LoadOfBlock(const float* own, int block) {
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(static_cast<unsigned>(__cvta_generic_to_shared(own))), "r"(block));
  Vector<float, kCount> values;
  if constexpr (kCount == 4) {
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(values.at[0]), "=f"(values.at[1]), "=f"(values.at[2]), "=f"(values.at[3])
                 : "r"(address)
                 : "memory");
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      asm volatile("ld.shared::cluster.f32 %0, [%1];"
                   : "=f"(values.at[i])
                   : "r"(address + 4 * i)
                   : "memory");
    }
  }
  return values;
}

// Stores a number to the shared memory of block number `block` of the cluster. `own` is the
// corresponding address in the shared memory of this block.
__device__ __forceinline__ void StoreToBlock(float* own, int block, float value) {
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(static_cast<unsigned>(__cvta_generic_to_shared(own))), "r"(block));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
#else
constexpr bool kHasClusters = false;
__device__ __forceinline__ void AwaitCluster() {}
__device__ __forceinline__ void LeaveCluster() {}
template <int kCount>
__device__ __forceinline__ Vector<float, kCount> LoadOfBlock(const float* own, int) {
  return LoadVector<kCount>(own);
}
__device__ __forceinline__ void StoreToBlock(float* own, int, float value) { *own = value; }
#endif

// Waits for all threads that compute the sums of the tile: those of the block, or those of the
// cluster.
template <class Shape>
__device__ __forceinline__ void AwaitSums() {
  if constexpr (Shape::kClusterBlocks > 1) {
    AwaitCluster();
  } else {
    __syncthreads();
  }
}

// Adds up the parts of all blocks of the cluster. `own` is the address of this block's part.
template <int kBlocks, int kCount>
__device__ __forceinline__ Vector<float, kCount> SumOfBlocks(const float* own) {
  Vector<float, kCount> sums = LoadOfBlock<kCount>(own, 0);
#pragma unroll
  for (int block = 1; block < kBlocks; ++block) {
    const Vector<float, kCount> more = LoadOfBlock<kCount>(own, block);
    for (int i = 0; i < kCount; ++i) sums.at[i] += more.at[i];
  }
  return sums;
}
