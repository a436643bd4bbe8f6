// A barrier in shared memory (PTX's mbarrier). With it, the threads that fill a stage and the
// threads that use it wait for each other. A barrier goes through phases. A phase ends when all
// arrivals that the barrier was made for have happened and all bytes that it was told to expect
// have been copied.
struct CopyBarrier {
  unsigned long long state;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __device__ __forceinline__ unsigned address() const {
    return static_cast<unsigned>(__cvta_generic_to_shared(this));
  }
  // Initializes the barrier. One thread calls this and then ShowBarriers; afterwards the kernel
  // must synchronize all threads of the block.
  __device__ __forceinline__ void Make(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals)
                 : "memory");
  }
  __device__ __forceinline__ void Arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
  }
  // Arrives, and lets the phase end only after CopyBytes has copied `bytes` more bytes.
  __device__ __forceinline__ void ArriveAndExpect(int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                 "r"(bytes)
                 : "memory");
  }
  // Arrives as soon as all copies that this thread has started with CopyAsync have completed.
  __device__ __forceinline__ void ArriveAfterCopies() {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(address())
                 : "memory");
  }
  // Waits for the end of a phase. `parity` is 0 for the first phase, 1 for the second, 0 for the
  // third.
  __device__ __forceinline__ void Await(int parity) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "again%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again%=;\n}\n" ::"r"(address()),
        "r"(parity)
        : "memory");
  }
#endif
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Makes the barriers that this thread has initialized visible to asynchronous copies.
__device__ __forceinline__ void ShowBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Starts a copy of `bytes` bytes, a multiple of 16, to shared memory; `barrier` counts the bytes
// when they have arrived.
__device__ __forceinline__ void CopyBytes(void* shared, const void* source, int bytes,
                                          CopyBarrier& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
      "l"(source), "r"(bytes), "r"(barrier.address())
      : "memory");
}
#endif
