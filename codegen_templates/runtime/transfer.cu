// ---- from codegen_templates/runtime/transfer.cu ----
// What the runtime launches before and behind the kernels of a program.

// As AwaitEarlierKernels of device/dependent_launch.cuh.
__device__ __forceinline__ void AwaitEarlierLaunches() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

struct InputCopies {
  struct {
    uint4* to;
    const uint4* from;  // page-locked memory of the host
    unsigned long long words;
  } copies[8];
};

// A word a thread, so that all of them are under way together; `blocks` for each copy.
extern "C" __global__ void __launch_bounds__(256)
copy_inputs(const __grid_constant__ InputCopies inputs, unsigned blocks) {
  AwaitEarlierLaunches();
  const auto& copy = inputs.copies[blockIdx.x / blocks];
  const unsigned i = blockIdx.x % blocks * blockDim.x + threadIdx.x;
  if (i < copy.words) copy.to[i] = copy.from[i];
}

// One thread tells the host, which reads that word, that all before it has ended and been stored.
extern "C" __global__ void end_run(volatile unsigned* ended) {
  AwaitEarlierLaunches();
  __threadfence_system();
  *ended = 1;
}
