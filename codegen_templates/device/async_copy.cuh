// Asynchronous copies from global to shared memory (cp.async): the thread goes on while they run.
// CloseCopies collects a thread's copies in a group; groups complete in the order in which they
// were closed.

// Starts a copy of kBytes to shared memory; if `inside` is false, it writes zeros instead and reads
// nothing. With kBypass, the copy bypasses the L1 cache; only copies of 16 bytes can.
template <int kBytes, bool kBypass = kBytes == 16>
__device__ __forceinline__ void CopyAsync(void* shared, const void* source, bool inside) {
#ifdef __CUDACC__
  if constexpr (kBytes >= 4) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    if constexpr (kBypass && kBytes == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(source),
                   "r"(inside ? kBytes : 0)
                   : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(source),
                   "n"(kBytes), "r"(inside ? kBytes : 0)
                   : "memory");
    }
  } else
#endif
  {
    for (int i = 0; i < kBytes; ++i) {
      static_cast<char*>(shared)[i] = inside ? static_cast<const char*>(source)[i] : 0;
    }
  }
}

// Makes one group of all copies that this thread has started since the last call.
__device__ __forceinline__ void CloseCopies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most kPending of this thread's most recent groups are still running.
template <int kPending>
__device__ __forceinline__ void AwaitCopies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}
