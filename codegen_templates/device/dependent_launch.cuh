// Programmatic dependent launch: a kernel may start while the previous kernel still runs. Before it
// uses any results, it waits until all earlier kernels have ended and their writes are visible.
//
// Two rules make this safe. First, every thread calls AwaitEarlierKernels before it accesses any
// global memory except weights, which no kernel writes. So nothing is read before it is written,
// and nothing is overwritten that an earlier kernel may still read. (Each kernel waits for its
// predecessor, which waited for its own predecessor, so that all earlier kernels have ended.)
// Second, only weights are parameters that are both const and __restrict__: the GPU may load such
// data through a read-only cache, which the wait does not invalidate. In a kernel that is launched
// in the ordinary way, and below compute capability 9.0, these functions do nothing.

// Lets the blocks of the next kernel start as soon as all blocks of this kernel have called this or
// ended. Call it only if this kernel leaves multiprocessors free: waiting blocks occupy some
// multiprocessors while others have no work.
__device__ __forceinline__ void LetNextKernelStart() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits until all earlier kernels have ended. A grid of few blocks leaves room for the next kernel,
// and lets it start.
__device__ __forceinline__ void AwaitEarlierKernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr unsigned kFewBlocks = 8;
  if (gridDim.x <= kFewBlocks) LetNextKernelStart();
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
