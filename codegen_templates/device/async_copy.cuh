// Copies to shared memory that go on while a thread does other things, in groups that end in order.

// Fills kBytes of shared memory in the background, with zeros where the source is outside; with
// kBypass, which 16 bytes can, past the first cache.
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
// Ends a group of copies.
__device__ __forceinline__ void CloseCopies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until at most kPending groups of this thread are under way.
template <int kPending>
__device__ __forceinline__ void AwaitCopies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}
