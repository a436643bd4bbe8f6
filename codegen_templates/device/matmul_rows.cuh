// The product a x b^T for few rows of a: a column's weights are read once, in the order in which
// they lie, and meet all rows.

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T elements[kCount];
};

__device__ __forceinline__ float ToFloat(float x) { return x; }

// Products of one column's weights with every row, by kWarps warps; thread r of each warp gets the
// sum of row r. `rows` of the kRows rows exist. `scratch` holds kRows floats per warp of the block;
// all threads of the block call this together.
template <int kRows, int kWarps, int kPack, class T>
__device__ __forceinline__ float MultiplyRows(const T* a, int rows, const T* weights, int depth,
                                              float* scratch) {
  using Values = Pack<T, kPack>;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float sums[kRows] = {};
#pragma unroll 4
  for (int k = (warp % kWarps * 32 + lane) * kPack; k < depth; k += kWarps * 32 * kPack) {
    const Values column = *reinterpret_cast<const Values*>(weights + k);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      // Without a branch all loads are under way together.
      const long long first = static_cast<long long>(row < rows ? row : 0) * depth;
      const Values values = *reinterpret_cast<const Values*>(a + first + k);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        sums[row] += ToFloat(values.elements[i]) * ToFloat(column.elements[i]);
      }
    }
  }
  float result = 0.0f;
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    float sum = sums[row];
    for (int distance = 16; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(~0u, sum, distance);
    }
    if (lane == row) result = sum;
  }
  if constexpr (kWarps > 1) {
    if (lane < kRows) scratch[warp * kRows + lane] = result;
    __syncthreads();
    result = 0.0f;
    const int first_warp = warp - warp % kWarps;
    if (lane < kRows) {
      for (int part = 0; part < kWarps; ++part) {
        result += scratch[(first_warp + part) * kRows + lane];
      }
    }
  }
  return result;
}
