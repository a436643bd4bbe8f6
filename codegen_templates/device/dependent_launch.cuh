// Programmatic dependent launch: a kernel may start while the kernel before it still runs. It first
// waits until the kernels before it have ended and all that they wrote is visible.
//
// Two rules make this safe. Every thread calls AwaitEarlierKernels before it loads or stores
// anything but weights, which no kernel writes: nothing is read before it is written, and nothing
// is overwritten that an earlier kernel may still read. (Each kernel waits for the one before it,
// so that all earlier ones have ended and not only the last.) And no parameter but weights is both
// const and __restrict__: the GPU may load such data through a cache that a wait does not clear. In
// a kernel that is launched in the ordinary way, and below compute capability 9.0, these functions
// do nothing.

// Lets the blocks of the next kernel start as soon as all blocks of this one have started. There
// must be room for them: blocks that only wait crowd some multiprocessors while others run dry.
__device__ __forceinline__ void LetNextKernelStart() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits for the kernels before this one.
__device__ __forceinline__ void AwaitEarlierKernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr unsigned kFewBlocks = 8;
  if (gridDim.x <= kFewBlocks) LetNextKernelStart();
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
