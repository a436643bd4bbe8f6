// Products by a warpgroup (four warps) on the tensor cores of sm_90a (wgmma). They are
// asynchronous: the threads go on while they run. They read the right operand from shared memory.

// kRows rows of kWords words, a multiple of 32, in shared memory. They are stored in panels that
// are 32 words wide. Vector number i (4 words) of a row of a panel is stored at place i ^ (row %
// 8), the 128-byte swizzle of wgmma. So the same vector of 8 rows lies in 32 different banks.
template <int kRows, int kWords>
struct alignas(1024) PanelRows {
  static constexpr int kPanelWords = 32;
  unsigned panels[kWords / kPanelWords][kRows][kPanelWords];

  __device__ __forceinline__ unsigned* at(int row, int word) {
    return &panels[word / kPanelWords][row][word % kPanelWords ^ row % 8 * 4];
  }
  __device__ __forceinline__ const unsigned* at(int row, int word) const {
    return const_cast<PanelRows*>(this)->at(row, word);
  }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// The matrix descriptor (PTX) of a panel: `begin` is the address at which tensor cores begin, at a
// row that is a multiple of 8; 8 rows take 1024 bytes.
__device__ __forceinline__ unsigned long long DescribePanel(const void* begin) {
  constexpr unsigned long long kSwizzle128Bytes = 1ull << 62, kEightRows = 1024ull / 16 << 32;
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(begin));
  return kSwizzle128Bytes | kEightRows | (address & 0x3ffffu) / 16;
}

// What to add to a descriptor so that it begins `words` words further on, a multiple of 4.
__device__ __forceinline__ constexpr unsigned long long PanelWords(int words) { return words / 4; }

// Makes what this thread has stored to shared memory visible to tensor cores.
__device__ __forceinline__ void ShowTensorCores() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Must precede products whose sums or left operands were written by other instructions.
__device__ __forceinline__ void BeginProducts() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Makes one group of all products that were started since the last call.
__device__ __forceinline__ void CloseProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most kPending of the most recent groups of products are still running.
template <int kPending>
__device__ __forceinline__ void AwaitProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving uses of sums across a wait for them.
template <int kPieces>
__device__ __forceinline__ void HoldSums(float (&sums)[kPieces][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kPieces; ++i) asm volatile("" : "+f"(sums[i / 4][i % 4])::"memory");
}

// sums = a x b, or sums += a x b if `add` is true, for 64 rows (16 per warp), 64 columns (8 pieces
// of sums) and 8 words of depth, in a 16-bit format. `a` and `sums` have the layout of mma.sync;
// `b` is the descriptor of a panel that has a row for each column or, if kTurned, a row for each
// step of the depth.
template <Arithmetic kArithmetic, bool kTurned>
__device__ __forceinline__ void MultiplyByPanel(float (*sums)[4], const unsigned (&a)[4],
                                                unsigned long long b, bool add) {
  static_assert(!kIsOfFloats<kArithmetic>);
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.%39.%39 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, add, 1, 1, %38;\n}\n"
      : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]),
        "+f"(sums[1][1]), "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]),
        "+f"(sums[2][2]), "+f"(sums[2][3]), "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]),
        "+f"(sums[3][3]), "+f"(sums[4][0]), "+f"(sums[4][1]), "+f"(sums[4][2]), "+f"(sums[4][3]),
        "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]), "+f"(sums[6][0]),
        "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]), "+f"(sums[7][0]), "+f"(sums[7][1]),
        "+f"(sums[7][2]), "+f"(sums[7][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)),
        "n"(kTurned), "C"(HalfType<kArithmetic>::kPtx));
}

// The name in PTX of a product of two panels, and the operands that say that neither is transposed;
// products of E4M3 have no such operands.
template <Arithmetic kArithmetic>
struct PairOfPanels {
  static constexpr char kPtx[] = "m64n64k16.f32.f16.f16", kTurns[] = ", 0, 0";
};
template <>
struct PairOfPanels<Arithmetic::kBFloat16> {
  static constexpr char kPtx[] = "m64n64k16.f32.bf16.bf16", kTurns[] = ", 0, 0";
};
template <>
struct PairOfPanels<Arithmetic::kShortFloat8> {
  static constexpr char kPtx[] = "m64n64k32.f32.e4m3.e4m3", kTurns[] = "";
};

// sums = a x b, or sums += a x b if `add` is true, for 64 rows, 64 columns and 8 words of depth, in
// a format of 16 or 8 bits. Both `a` and `b` are descriptors of panels, which have a row for each
// row or column of the sums.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void MultiplyPanels(float (&sums)[8][4], unsigned long long a,
                                               unsigned long long b, bool add) {
  static_assert(!kIsOfFloats<kArithmetic>);
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.%35 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, add, 1, 1%36;\n}\n"
      : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]),
        "+f"(sums[1][1]), "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]),
        "+f"(sums[2][2]), "+f"(sums[2][3]), "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]),
        "+f"(sums[3][3]), "+f"(sums[4][0]), "+f"(sums[4][1]), "+f"(sums[4][2]), "+f"(sums[4][3]),
        "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]), "+f"(sums[6][0]),
        "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]), "+f"(sums[7][0]), "+f"(sums[7][1]),
        "+f"(sums[7][2]), "+f"(sums[7][3])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)), "C"(PairOfPanels<kArithmetic>::kPtx),
        "C"(PairOfPanels<kArithmetic>::kTurns));
}

// The name in PTX of a product of floats or of E4M3.
template <Arithmetic kArithmetic>
struct PanelProduct {
  static constexpr char kPtx[] = "m64n64k8.f32.tf32.tf32";
};
template <>
struct PanelProduct<Arithmetic::kFloat8> {
  static constexpr char kPtx[] = "m64n64k32.f32.e4m3.e4m3";
};
template <>
struct PanelProduct<Arithmetic::kShortFloat8> : PanelProduct<Arithmetic::kFloat8> {};

// sums = a x b, or sums += a x b if `add` is true, for 64 rows, 64 columns and 32 words of depth,
// of floats or of E4M3. `a` holds four steps in the layout of mma.sync; `b` is the descriptor of a
// panel with a row for each column. Four products in one asm statement compile faster than four
// statements.
template <Arithmetic kArithmetic>
__device__ __forceinline__ void MultiplyByWholePanel(float (&sums)[8][4], const unsigned (&a)[4][4],
                                                     unsigned long long b, bool add) {
  constexpr int kStep = 32 / 16;  // descriptors count in units of 16 bytes
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %52, 0;\n"
      "wgmma.mma_async.sync.aligned.%53 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %48, add, 1, 1;\n"
      "wgmma.mma_async.sync.aligned.%53 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%36, %37, %38, %39}, %49, 1, 1, 1;\n"
      "wgmma.mma_async.sync.aligned.%53 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%40, %41, %42, %43}, %50, 1, 1, 1;\n"
      "wgmma.mma_async.sync.aligned.%53 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%44, %45, %46, %47}, %51, 1, 1, 1;\n}\n"
      : "+f"(sums[0][0]), "+f"(sums[0][1]), "+f"(sums[0][2]), "+f"(sums[0][3]), "+f"(sums[1][0]),
        "+f"(sums[1][1]), "+f"(sums[1][2]), "+f"(sums[1][3]), "+f"(sums[2][0]), "+f"(sums[2][1]),
        "+f"(sums[2][2]), "+f"(sums[2][3]), "+f"(sums[3][0]), "+f"(sums[3][1]), "+f"(sums[3][2]),
        "+f"(sums[3][3]), "+f"(sums[4][0]), "+f"(sums[4][1]), "+f"(sums[4][2]), "+f"(sums[4][3]),
        "+f"(sums[5][0]), "+f"(sums[5][1]), "+f"(sums[5][2]), "+f"(sums[5][3]), "+f"(sums[6][0]),
        "+f"(sums[6][1]), "+f"(sums[6][2]), "+f"(sums[6][3]), "+f"(sums[7][0]), "+f"(sums[7][1]),
        "+f"(sums[7][2]), "+f"(sums[7][3])
      : "r"(a[0][0]), "r"(a[0][1]), "r"(a[0][2]), "r"(a[0][3]), "r"(a[1][0]), "r"(a[1][1]),
        "r"(a[1][2]), "r"(a[1][3]), "r"(a[2][0]), "r"(a[2][1]), "r"(a[2][2]), "r"(a[2][3]),
        "r"(a[3][0]), "r"(a[3][1]), "r"(a[3][2]), "r"(a[3][3]), "l"(b), "l"(b + kStep),
        "l"(b + 2 * kStep), "l"(b + 3 * kStep), "r"(static_cast<int>(add)),
        "C"(PanelProduct<kArithmetic>::kPtx));
}
#else
// Without wgmma there is nothing to do.
__device__ __forceinline__ void ShowTensorCores() {}
#endif
