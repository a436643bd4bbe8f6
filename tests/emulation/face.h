// CUDA's keywords and built-ins for the text of kernels in the emulation of a GPU (README.md). This file is pasted into the host header
// (codegen_templates/host) in place of the part that emulates a block of one thread.
#define __shared__ static thread_local

static thread_local Dim3 threadIdx{0, 0, 0};
static thread_local Dim3 blockDim{1, 1, 1};
[[maybe_unused]] static thread_local Dim3 blockIdx{0, 0, 0};
[[maybe_unused]] constexpr Dim3 gridDim{1024, 1, 1};  // larger than the small grids that start the next kernel at once
// Every kernel gets the most shared memory that a block may have.
alignas(1024) [[maybe_unused]] static thread_local char gpu_shared_memory[227 << 10];

inline void FindPlaces(PlacesOfBlock* places) {
  *places = {&threadIdx.x, &blockIdx.x, &blockDim.x, gpu_shared_memory};
}

template <class Kernel>
void RunBlock(int threads, int cluster_blocks, Kernel kernel) {
  EmulatedLaunch launch{threads, cluster_blocks, FindPlaces,
                        [](void* arguments) { (*static_cast<Kernel*>(arguments))(); }, &kernel};
  FusecEmulateBlock(&launch, blockIdx.x);
}

// Operands of asm statements: written; written and read; read.
template <class T>
PtxOperand PtxOut(T& place) {
  return {&place, nullptr, 0, sizeof(T)};
}
template <class T>
PtxOperand PtxIn(T value) {
  PtxOperand operand{nullptr, nullptr, 0, sizeof(T)};
  __builtin_memcpy(&operand.value, &value, sizeof(T));
  return operand;
}
template <class T>
PtxOperand PtxBoth(T& place) {
  PtxOperand operand = PtxIn(place);
  operand.place = &place;
  return operand;
}
inline PtxOperand PtxText(const char* text) { return {nullptr, text, 0, 0}; }
template <class... Operands>
void Ptx(const char* text, Operands... operands) {
  PtxOperand all[] = {operands..., PtxOperand{}};
  FusecEmulatePtx(text, all, sizeof...(operands));
}

inline unsigned long long __cvta_generic_to_shared(const void* place) { return FusecSharedAddress(place); }
inline const void* __cvta_generic_to_global(const void* place) { return place; }

inline void __syncthreads() { FusecSyncThreads(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { FusecSyncWarp(mask); }
inline void __threadfence() {}
inline int __syncthreads_count(int holds) { return FusecCountOfBlock(holds); }
inline int __syncthreads_and(int holds) { return FusecCountOfBlock(holds) == static_cast<int>(blockDim.x); }
inline bool __all_sync(unsigned mask, bool holds) { return FusecAllOfWarp(mask, holds) != 0; }
inline unsigned __ballot_sync(unsigned mask, bool holds) { return FusecBallot(mask, holds); }

template <class T>
T ShuffleFrom(unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA shuffles 32 or 64 bits");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = FusecShuffle(mask, bits, from);
  T result;
  __builtin_memcpy(&result, &bits, sizeof(T));
  return result;
}
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

template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  unsigned same = 0;
  for (int lane = 0; lane < 32; ++lane) same |= static_cast<unsigned>(__shfl_sync(mask, value, lane) == value) << lane;
  return same;
}

inline unsigned atomicOr(unsigned* place, unsigned bits) {
  const unsigned before = *place;
  *place |= bits;
  return before;
}
inline int atomicAdd(int* place, int added) {
  const int before = *place;
  *place += added;
  return before;
}
struct alignas(8) uint2 {
  unsigned x, y;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const unsigned long long bytes = (static_cast<unsigned long long>(high) << 32) | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
  return result;
}
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline void memcpy(void* to, const void* from, unsigned long bytes) { __builtin_memcpy(to, from, bytes); }
inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float __fmul_rn(float x, float y) { return x * y; }
