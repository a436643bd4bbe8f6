// ---- from codegen_templates/runtime/transfer.cu ----
// The kernels that the runtime launches before and after the kernels of a program.

// Like AwaitEarlierKernels of device/dependent_launch.cuh; the next kernel may always start.
__device__ __forceinline__ void AwaitEarlierLaunches() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

struct InputCopies {
  struct {
    uint4* to;
    const uint4* from;  // page-locked host memory
    unsigned long long words;
  } copies[8];
};

// Copies up to 8 inputs, with `blocks` blocks for each. Each thread copies one word of 16 bytes, so
// that all copies run concurrently.
extern "C" __global__ void __launch_bounds__(256)
copy_inputs(const __grid_constant__ InputCopies inputs, unsigned blocks) {
  AwaitEarlierLaunches();
  const auto& copy = inputs.copies[blockIdx.x / blocks];
  const unsigned i = blockIdx.x % blocks * blockDim.x + threadIdx.x;
  if (i < copy.words) copy.to[i] = copy.from[i];
}

// Sets `*ended`, a word that the host polls, after all earlier kernels have ended and their stores
// are visible. It runs with one thread.
extern "C" __global__ void end_run(volatile unsigned* ended) {
  AwaitEarlierLaunches();
  __threadfence_system();
  *ended = 1;
}
