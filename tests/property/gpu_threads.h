// Lets a kernel that was planned for a GPU run on a CPU, for tests: pasted into the host header (codegen_templates/host) in place of
// its one-thread block. Each thread of a block is a fiber; barriers and shuffles switch between them, and what a GPU would leave
// open (a shuffle that reads a thread which has left, threads that wait at different barriers) ends the process.
#define __shared__ static thread_local

static thread_local Dim3 threadIdx{0, 0, 0};
static thread_local Dim3 blockDim{1, 1, 1};
[[maybe_unused]] static thread_local Dim3 blockIdx{0, 0, 0};

constexpr int kMostThreads = 1024;
constexpr int kStackBytes = 1 << 16;

struct Barrier {
  int waiting, generation;
};
struct Block {
  ucontext_t scheduler, fibers[kMostThreads];
  bool has_left[kMostThreads];
  Barrier all, warps[kMostThreads / 32];
  unsigned long long slots[kMostThreads];
  void (*kernel)(void*);
  void* arguments;
  char* stacks;
};
static thread_local Block gpu_block;

[[noreturn]] inline void Complain(const char* what) {
  __builtin_printf("a block cannot run: %s\n", what);
  __builtin_abort();
}

inline void WaitAt(Barrier& barrier) {
  const int generation = barrier.generation;
  ++barrier.waiting;
  while (barrier.generation == generation) {
    swapcontext(&gpu_block.fibers[threadIdx.x], &gpu_block.scheduler);
  }
}

inline void FiberMain() {
  gpu_block.kernel(gpu_block.arguments);
  gpu_block.has_left[threadIdx.x] = true;
  setcontext(&gpu_block.scheduler);
}

// Opens a barrier that all threads of first..last-1 which have not left wait at. Whether it did.
inline bool Release(Barrier& barrier, int first, int last) {
  int present = 0;
  for (int t = first; t < last; ++t) present += !gpu_block.has_left[t];
  if (barrier.waiting == 0 || barrier.waiting < present) return false;
  barrier.waiting = 0;
  ++barrier.generation;
  return true;
}

template <class Kernel>
void RunBlock(int threads, Kernel kernel) {
  Block& block = gpu_block;
  if (block.stacks == nullptr) {
    block.stacks = static_cast<char*>(std::malloc(size_t{kMostThreads} * kStackBytes));
  }
  blockDim.x = static_cast<unsigned>(threads);
  block.kernel = [](void* arguments) { (*static_cast<Kernel*>(arguments))(); };
  block.arguments = &kernel;
  for (int t = 0; t < threads; ++t) {
    getcontext(&block.fibers[t]);
    block.fibers[t].uc_stack.ss_sp = block.stacks + size_t{kStackBytes} * static_cast<size_t>(t);
    block.fibers[t].uc_stack.ss_size = kStackBytes;
    block.fibers[t].uc_link = nullptr;
    makecontext(&block.fibers[t], FiberMain, 0);
    block.has_left[t] = false;
  }
  for (int left = -1; left < threads;) {
    const int left_before = left;
    left = 0;
    for (int t = 0; t < threads; ++t) {
      threadIdx.x = static_cast<unsigned>(t);
      if (!block.has_left[t]) swapcontext(&block.scheduler, &block.fibers[t]);
      left += block.has_left[t];
    }
    bool moved = left != left_before;
    moved |= Release(block.all, 0, threads);
    for (int t = 0; t < threads; t += 32) {
      moved |= Release(block.warps[t / 32], t, t + 32 < threads ? t + 32 : threads);
    }
    if (!moved) Complain("its threads wait at different barriers");
  }
  threadIdx.x = 0;
}

inline void __syncthreads() { WaitAt(gpu_block.all); }
inline void __syncwarp(unsigned = 0xffffffffu) { WaitAt(gpu_block.warps[threadIdx.x / 32]); }
inline void __threadfence() {}

// Whether it holds for all threads of the block, none of which has left.
inline int __syncthreads_and(int holds) {
  gpu_block.slots[threadIdx.x] = holds != 0;
  __syncthreads();
  bool all = true;
  for (unsigned t = 0; t < blockDim.x; ++t) {
    if (gpu_block.has_left[t]) Complain("a vote of a thread that has left");
    all = all && gpu_block.slots[t] != 0;
  }
  __syncthreads();
  return all;
}

// What thread `from` of the block holds.
template <class T>
T ShuffleFrom(unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA shuffles 32 or 64 bits");
  if (mask != 0xffffffffu) Complain("a shuffle of a part of a warp");
  __builtin_memcpy(&gpu_block.slots[threadIdx.x], &value, sizeof(T));
  __syncwarp();
  if (from >= blockDim.x || gpu_block.has_left[from]) Complain("a shuffle reads a thread that has left");
  T result;
  __builtin_memcpy(&result, &gpu_block.slots[from], sizeof(T));
  __syncwarp();
  return result;
}
// Whether it holds for all threads of the warp, none of which has left.
inline bool __all_sync(unsigned mask, bool holds) {
  if (mask != 0xffffffffu) Complain("a vote of a part of a warp");
  gpu_block.slots[threadIdx.x] = holds;
  __syncwarp();
  const unsigned first = threadIdx.x / 32 * 32;
  bool all = true;
  for (unsigned t = first; t < first + 32 && t < blockDim.x; ++t) {
    if (gpu_block.has_left[t]) Complain("a vote of a thread that has left");
    all = all && gpu_block.slots[t] != 0;
  }
  __syncwarp();
  return all;
}
// For which threads of the warp it holds, a bit each.
inline unsigned __ballot_sync(unsigned mask, bool holds) {
  if (mask != 0xffffffffu) Complain("a vote of a part of a warp");
  gpu_block.slots[threadIdx.x] = holds;
  __syncwarp();
  const unsigned first = threadIdx.x / 32 * 32;
  unsigned bits = 0;
  for (unsigned t = first; t < first + 32 && t < blockDim.x; ++t) {
    if (gpu_block.has_left[t]) Complain("a vote of a thread that has left");
    bits |= (gpu_block.slots[t] != 0 ? 1u : 0u) << (t - first);
  }
  __syncwarp();
  return bits;
}
inline int atomicAdd(int* place, int added) {
  const int before = *place;
  *place += added;
  return before;
}
inline int __ffs(int bits) { return __builtin_ffs(bits); }
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  const unsigned first = threadIdx.x / width * width;
  return ShuffleFrom(mask, value, first + static_cast<unsigned>(lane) % width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  const unsigned from = threadIdx.x % width + distance;
  return ShuffleFrom(mask, value, from < static_cast<unsigned>(width) ? threadIdx.x + distance : threadIdx.x);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  return ShuffleFrom(mask, value, threadIdx.x % width >= distance ? threadIdx.x - distance : threadIdx.x);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int = 32) {
  return ShuffleFrom(mask, value, threadIdx.x ^ static_cast<unsigned>(distance));
}
