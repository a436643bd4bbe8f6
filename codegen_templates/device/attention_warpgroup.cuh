// The products of attention_tile.cuh by warpgroups, behind that file and warpgroup.cuh.

// Halves, with keys and values in panels: kDepth and kColumns are multiples of 64.
struct WarpgroupProducts {
  template <int kRows, int kWords>
  using Rows = PanelRows<kRows, kWords>;

#ifdef __CUDACC__
  // scores = queries x keys^T
  template <class Shape>
  __device__ __forceinline__ static void MultiplyKeys(const typename Shape::Memory& memory,
                                                      const typename Shape::Tile& tile,
                                                      const QueryWords<Shape>& queries,
                                                      float (&scores)[Shape::kKeyPieces][4]) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    static_assert(Shape::kKeys == 64);
    HoldSums(scores);
    BeginProducts();
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      const unsigned* keys = &tile.keys.panels[step / 4][0][step % 4 * 8];
      MultiplyByPanel<Shape::kArithmetic, false>(scores, queries.words[step], DescribePanel(keys),
                                                 step > 0);
    }
    CloseProducts();
    AwaitProducts<0>();
    HoldSums(scores);
#else  // a GPU that the kernel was not planned for
    MultiplyPlainly<Shape>(memory, tile, scores);
#endif
  }

  // sums += weights x values
  template <class Shape>
  __device__ __forceinline__ static void AddValues(const typename Shape::Tile& tile,
                                                   const float (&weights)[Shape::kKeyPieces][4],
                                                   float (&sums)[1][Shape::kColumnPieces][4]) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    unsigned words[Shape::kKeys / 16][4];
#pragma unroll
    for (int i = 0; i < Shape::kKeys / 4; ++i) {
      const float(&pair)[4] = weights[i / 2];
      words[i / 4][i % 4] = PackHalves<Shape::kArithmetic>(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
    }
    HoldSums(sums[0]);
    BeginProducts();
#pragma unroll
    for (int step = 0; step < Shape::kKeys / 16; ++step) {
#pragma unroll
      for (int panel = 0; panel < Shape::kColumnPieces / 8; ++panel) {
        const unsigned* values = tile.values.panels[panel][16 * step];
        MultiplyByPanel<Shape::kArithmetic, true>(sums[0] + 8 * panel, words[step],
                                                  DescribePanel(values), true);
      }
    }
    CloseProducts();
    AwaitProducts<0>();
    HoldSums(sums[0]);
#else
    AddPlainly<Shape>(tile, weights, sums);
#endif
  }
#endif
};
