// How the registers and the shared memory of a multiprocessor are divided among the warpgroups of
// its blocks (matmul_warpgroup.cuh).

// The shared memory, in bytes, that the blocks of a multiprocessor have together.
constexpr int kMostSharedBytes = 232448;

// Whether two blocks run on a multiprocessor, each with half of its registers and shared memory, so
// that one stores its tile while the other multiplies. If threads add sums of chunks (kAddsChunks),
// only tiles with one multiplying warpgroup do so; with split floats, only those of 64 columns.
template <class Shape, bool kMakes>
constexpr bool kHasNeighbour =
    !kMakes && (!Shape::kAddsChunks || Shape::kGroups == 1) &&
    (Shape::kIsSplit ? Shape::kColumns == 64
                     : 2 * sizeof(typename Shape::Memory) <= kMostSharedBytes);

// Registers per thread: `at_first` when the kernel starts and ends; `of_filling` for the threads
// that fill stages, which release registers, and most if they only copy; `of_multiplying` for the
// threads that multiply, which take the released ones. The totals never exceed the registers of the
// block, so that no block waits for another one.
struct RegisterShares {
  int at_first, of_filling, of_multiplying;
};
__device__ constexpr RegisterShares SharesOfRegisters(int groups, bool has_neighbour, bool makes) {
  if (groups == 1) return {128, 40, 208};
  if (has_neighbour) return {80, 32, 104};
  return makes ? RegisterShares{168, 88, 208} : RegisterShares{168, 40, 232};
}
template <class Shape, bool kMakes>
constexpr RegisterShares kRegisters = SharesOfRegisters(Shape::kGroups,
                                                        kHasNeighbour<Shape, kMakes>, kMakes);
// Whether registers are moved between warpgroups. A single multiplying warpgroup has enough of
// them, unless it adds sums of chunks and another block runs on the multiprocessor.
template <class Shape, bool kMakes>
constexpr bool kSharesRegisters = Shape::kGroups == 2 ||
                                  (Shape::kAddsChunks && kHasNeighbour<Shape, kMakes>);

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Releases registers for the threads that multiply.
template <class Shape, bool kMakes>
__device__ __forceinline__ void LeaveRegisters() {
  if constexpr (kSharesRegisters<Shape, kMakes>)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters<Shape, kMakes>.of_filling));
}

// Acquires the registers that LeaveRegisters releases.
template <class Shape, bool kMakes>
__device__ __forceinline__ void TakeRegisters() {
  if constexpr (kSharesRegisters<Shape, kMakes>)
    asm volatile(
        "setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters<Shape, kMakes>.of_multiplying));
}

// Releases what TakeRegisters acquired.
template <class Shape, bool kMakes>
__device__ __forceinline__ void ReturnRegisters() {
  if constexpr (kSharesRegisters<Shape, kMakes>)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters<Shape, kMakes>.at_first));
}

// Acquires again what LeaveRegisters released.
template <class Shape, bool kMakes>
__device__ __forceinline__ void TakeRegistersBack() {
  if constexpr (kSharesRegisters<Shape, kMakes>)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters<Shape, kMakes>.at_first));
}
#endif
