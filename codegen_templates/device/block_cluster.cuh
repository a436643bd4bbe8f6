// The blocks of a cluster share out the sums of a tile: each makes a part of every sum, and reads
// the others' parts in their shared memory. Before compute capability 9.0 there are no clusters,
// and each block makes whole sums.

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#undef __cluster_dims__
#define __cluster_dims__(...)
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr bool kHasClusters = true;

// Waits for all threads of the cluster and makes what they wrote to shared memory visible.
__device__ __forceinline__ void AwaitCluster() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}

// Waits until no thread of the cluster reads the shared memory of another block any more: a block
// must not end before.
__device__ __forceinline__ void LeaveCluster() {
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;\n"
      "barrier.cluster.wait.aligned;" ::
          : "memory");
}

// Loads kCount neighbours from the shared memory of block number `block` of the cluster, at the
// place that is `own` in this block.
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
#else
constexpr bool kHasClusters = false;
__device__ __forceinline__ void AwaitCluster() {}
__device__ __forceinline__ void LeaveCluster() {}
template <int kCount>
__device__ __forceinline__ Vector<float, kCount> LoadOfBlock(const float* own, int) {
  return LoadVector<kCount>(own);
}
#endif

// Waits for all threads that make the sums of the tile: those of the block or of the cluster.
template <class Shape>
__device__ __forceinline__ void AwaitSums() {
  if constexpr (Shape::kClusterBlocks > 1) {
    AwaitCluster();
  } else {
    __syncthreads();
  }
}

// Adds up the parts that the blocks of the cluster have at the place that is `own` in this one.
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
