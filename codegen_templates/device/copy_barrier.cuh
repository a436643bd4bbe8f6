// Barriers in shared memory by which threads that fill it and threads that use it wait for each
// other (PTX's mbarrier). A barrier goes through phases; one ends when as many arrivals were
// counted as the barrier was made for, and all bytes were copied that it was told to expect.
struct CopyBarrier {
  unsigned long long state;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __device__ __forceinline__ unsigned address() const {
    return static_cast<unsigned>(__cvta_generic_to_shared(this));
  }
  // By one thread, before ShowBarriers and a barrier of all threads.
  __device__ __forceinline__ void Make(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals)
                 : "memory");
  }
  __device__ __forceinline__ void Arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
  }
  // Arrives, and keeps the phase from ending before CopyBytes has brought so many bytes.
  __device__ __forceinline__ void ArriveAndExpect(int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                 "r"(bytes)
                 : "memory");
  }
  // Arrives when what this thread has copied by CopyAsync is there.
  __device__ __forceinline__ void ArriveAfterCopies() {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(address())
                 : "memory");
  }
  // Waits for the end of a phase: `parity` is 0 for the first, 1 for the second, 0 for the third.
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
// Makes barriers that this thread made visible to copies.
__device__ __forceinline__ void ShowBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Copies multiples of 16 bytes in the background, of which `barrier` learns.
__device__ __forceinline__ void CopyBytes(void* shared, const void* source, int bytes,
                                          CopyBarrier& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
      "l"(source), "r"(bytes), "r"(barrier.address())
      : "memory");
}
#endif
