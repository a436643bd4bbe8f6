// What a kernel does first where several follow each other (programmatic dependent launch): it
// waits until the kernels before it have ended and all that they wrote can be seen.
//
// The rule that makes this safe: every thread calls AwaitEarlierKernels before it loads or stores
// anything but weights, which no kernel writes. So nothing is read before it is written, and
// nothing is overwritten that an earlier kernel may still read. Each kernel ends after the one
// before it, since it waits for it, so that all earlier kernels have ended and not only the last.
// And no parameter but weights is both const and __restrict__: such data is loaded as what does not
// change while the kernel runs, from lines of the first cache that a wait need not clear. In a
// kernel that is launched in the ordinary way, and below compute capability 9.0, these do nothing.

// Lets the blocks of the next kernel start as soon as all of this one have, and not only when these
// have ended. They must find room: where many blocks that wait crowd some multiprocessors, others
// have no work later.
__device__ __forceinline__ void LetNextKernelStart() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void AwaitEarlierKernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr unsigned kFewBlocks = 8;
  if (gridDim.x <= kFewBlocks) LetNextKernelStart();
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
