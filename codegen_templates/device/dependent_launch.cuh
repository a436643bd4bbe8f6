// What a kernel does first where several follow each other (programmatic dependent launch): it lets
// the blocks of the next kernel start as soon as its own all have, and waits until the kernels
// before it have ended and all that they wrote can be seen.
//
// The rule that makes this safe: every thread calls this before it loads or stores anything that is
// not constant. So nothing is read before it is written, and nothing is overwritten that an earlier
// kernel may still read. Each kernel ends after the one before it, since it waits for it, so that
// all earlier kernels have ended and not only the last. In a kernel that is launched in the
// ordinary way, and below compute capability 9.0, it does nothing.
__device__ __forceinline__ void AwaitEarlierKernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
