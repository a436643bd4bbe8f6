// How the warpgroups of a block share out a multiprocessor's registers and memory
// (matmul_warpgroup.cuh).

// Of shared memory that blocks of a multiprocessor have at most.
constexpr int kMostSharedBytes = 232448;

// Whether two blocks share a multiprocessor, each with half of its registers and memory: one stores
// its tile while the other multiplies. Where threads add sums of chunks, the tiles of one warpgroup
// do, and of floats that are split the smallest of these.
template <class Shape, bool kMakes>
constexpr bool kHasNeighbour =
    !kMakes && (!Shape::kAddsChunks || Shape::kGroups == 1) &&
    (Shape::kIsSplit ? Shape::kColumns == 64
                     : 2 * sizeof(typename Shape::Memory) <= kMostSharedBytes);

// Registers of a thread: at first and in the end; of those that fill stages, which leave them to
// those that multiply, more of them if they only copy. All together are no more than the block
// has, so that none waits for another block.
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
// One warpgroup that multiplies has enough, unless it adds sums of chunks beside another block.
template <class Shape, bool kMakes>
constexpr bool kSharesRegisters = Shape::kGroups == 2 ||
                                  (Shape::kAddsChunks && kHasNeighbour<Shape, kMakes>);

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Leaves registers to the threads that multiply.
template <class Shape, bool kMakes>
__device__ __forceinline__ void LeaveRegisters() {
  if constexpr (kSharesRegisters<Shape, kMakes>)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters<Shape, kMakes>.of_filling));
}

// Takes the registers that LeaveRegisters leaves.
template <class Shape, bool kMakes>
__device__ __forceinline__ void TakeRegisters() {
  if constexpr (kSharesRegisters<Shape, kMakes>)
    asm volatile(
        "setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters<Shape, kMakes>.of_multiplying));
}

// Gives back what TakeRegisters took.
template <class Shape, bool kMakes>
__device__ __forceinline__ void ReturnRegisters() {
  if constexpr (kSharesRegisters<Shape, kMakes>)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters<Shape, kMakes>.at_first));
}

// Takes back what LeaveRegisters left.
template <class Shape, bool kMakes>
__device__ __forceinline__ void TakeRegistersBack() {
  if constexpr (kSharesRegisters<Shape, kMakes>)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters<Shape, kMakes>.at_first));
}
#endif
