// A kernel beside which the next one may run, which needs its result only at the end: an adapter's
// low-rank rows, and the layer that adds the adapter.
//
// This extends the first rule of dependent_launch.cuh. When the next kernel starts, all kernels but
// this one have ended. So it may read what those wrote before it calls AwaitEarlierKernels, which
// it must do before it reads what this kernel writes, and before it stores anything.

// Waits until all earlier kernels have ended, and only then lets the next kernel start, if this one
// leaves multiprocessors free.
__device__ __forceinline__ void AwaitEarlierKernelsBeforeNext() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr unsigned kHalfOfGpu = 64;  // blocks
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (gridDim.x <= kHalfOfGpu) LetNextKernelStart();
#endif
}
