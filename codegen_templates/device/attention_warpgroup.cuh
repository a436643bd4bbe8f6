// The two products of attention (attention_tile.cuh), computed by warpgroups (warpgroup.cuh).

// A choice for AttentionShape::Products: each warpgroup multiplies 64 queries of a 16-bit format.
// Queries, keys and values are stored in panels, so that kDepth and kColumns must be multiples of
// 64.
struct WarpgroupProducts {
  template <int kRows, int kWords>
  using Rows = PanelRows<kRows, kWords>;

  // The matrix descriptor of the panel that holds the first elements of the warpgroup's queries.
  template <class Shape>
  struct Queries {
    unsigned long long panel;
  };

#ifdef __CUDACC__
  template <class Shape>
  __device__ __forceinline__ static Queries<Shape> TakeQueries(
      const typename Shape::Memory& memory) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    return {DescribePanel(memory.queries.panels[0][threadIdx.x / 128 * 64])};
#else
    return {};
#endif
  }

  // scores = queries x keys^T
  template <class Shape>
  __device__ __forceinline__ static void MultiplyKeys(const typename Shape::Memory& memory,
                                                      const typename Shape::Tile& tile,
                                                      const Queries<Shape>& queries,
                                                      float (&scores)[Shape::kKeyPieces][4]) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    static_assert(Shape::kKeys == 64);
    const unsigned long long keys = DescribePanel(tile.keys.panels[0][0]);
    HoldSums(scores);
    BeginProducts();
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      const int panel = step / 4, word = step % 4 * 8;
      MultiplyPanels<Shape::kArithmetic>(
          scores, queries.panel + PanelWords(panel * Shape::kQueries * 32 + word),
          keys + PanelWords(panel * Shape::kKeys * 32 + word), step > 0);
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
    const unsigned long long values = DescribePanel(tile.values.panels[0][0]);
    HoldSums(sums[0]);
    BeginProducts();
#pragma unroll
    for (int step = 0; step < Shape::kKeys / 16; ++step) {
#pragma unroll
      for (int panel = 0; panel < Shape::kColumnPieces / 8; ++panel) {
        const int row = panel * Shape::kKeys + 16 * step;
        MultiplyByPanel<Shape::kArithmetic, true>(sums[0] + 8 * panel, words[step],
                                                  values + PanelWords(row * 32), true);
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
