// The product a x b^T for few rows of a. Each row of b, which holds the weights of one output
// column, is read once, with contiguous loads, and multiplied by all rows of a.

__device__ __forceinline__ float ToFloat(float x) { return x; }

// A thread's first packs (vectors of kPack weights) of a column, which are prefetched before the
// rows of a are available.
template <int kWarps, int kPack, int kFirst, class Pack>
struct FirstWeights {
  Pack packs[kFirst];
};

// The index of the first term of this thread's pack number i. The terms of a sum are distributed
// over kWarps warps.
template <int kWarps, int kPack>
__device__ __forceinline__ int PackBegin(int i) {
  return (i * kWarps * 32 + threadIdx.x % (kWarps * 32)) * kPack;
}

// kPack consecutive weights of a column, from weight k on, a multiple of kPack. `weights` points to
// the column, or is a function `weights(pack, made)` that computes pack number `pack`.
template <int kPack, class T>
__device__ __forceinline__ Vector<T, kPack> LoadWeights(const T* weights, int k) {
  return LoadVector<kPack>(weights + k);
}
template <int kPack, class Weights>
__device__ __forceinline__ Vector<float, kPack> LoadWeights(const Weights& weights, int k) {
  Vector<float, kPack> made;
  weights(k / kPack, made);
  return made;
}

// Reads the first kFirst packs of this thread; `weights` has `depth` elements.
template <int kWarps, int kPack, int kFirst, class Weights>
__device__ __forceinline__ auto ReadFirstWeights(const Weights& weights, int depth) {
  FirstWeights<kWarps, kPack, kFirst, decltype(LoadWeights<kPack>(weights, 0))> first;
#pragma unroll
  for (int i = 0; i < kFirst; ++i) {
    const int k = PackBegin<kWarps, kPack>(i);
    if (k < depth) first.packs[i] = LoadWeights<kPack>(weights, k);
  }
  return first;
}

// kPack consecutive elements of a row, from element k on.
template <int kPack, class T>
__device__ __forceinline__ Vector<T, kPack> LoadPack(const T* a, int row, int k, int depth) {
  return LoadVector<kPack>(a + static_cast<long long>(row) * depth + k);
}

// sums[row] += the dot product of `column` (kPack weights of a column, from element k on) and the
// same elements of the row, for each row.
template <int kRows, int kPack, class Left, class T>
__device__ __forceinline__ void AddProducts(const Left& a, int rows, const Vector<T, kPack>& column,
                                            int k, int depth, float (&sums)[kRows]) {
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    // There is no branch here, so that all loads run concurrently.
    const auto values = LoadPack<kPack>(a, row < rows ? row : 0, k, depth);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sums[row] += ToFloat(values.at[i]) * ToFloat(column.at[i]);
  }
}

// Sums each of the kSums values (kSums is a power of two) over the warp. Lane i returns sum number
// i; lanes from kSums on return 0.
template <int kSums>
__device__ __forceinline__ float SumOverWarp(float (&sums)[kSums]) {
  const int lane = threadIdx.x % 32;
  int distance = 16;
  // In each step, a lane passes half of its sums to its partner and keeps the other half, until it
  // has one.
#pragma unroll
  for (int half = kSums / 2; half > 0; half /= 2) {
    const bool is_upper = lane & distance;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float given = is_upper ? sums[i] : sums[i + half];
      const float kept = is_upper ? sums[i + half] : sums[i];
      sums[i] = kept + __shfl_xor_sync(~0u, given, distance);
    }
    distance /= 2;
  }
  for (; distance > 0; distance /= 2) sums[0] += __shfl_xor_sync(~0u, sums[0], distance);
  const float sum = kSums == 1 ? sums[0] : __shfl_sync(~0u, sums[0], lane % kSums * (32 / kSums));
  return lane < kSums ? sum : 0.0f;
}

// Multiplies the weights of one column by every row, with kWarps warps. Lane r of each warp returns
// the sum of row r. Only the first `rows` of the kRows rows exist. `scratch`, in shared memory, has
// room for kRows floats per warp of the block. All threads of the block must call this together.
template <int kRows, int kWarps, int kPack, int kFirst, class Left, class Weights, class Pack>
__device__ __forceinline__ float MultiplyRows(
    const Left& a, int rows, const Weights& weights,
    const FirstWeights<kWarps, kPack, kFirst, Pack>& first, int depth, float* scratch) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float sums[kRows] = {};
#pragma unroll
  for (int i = 0; i < kFirst; ++i) {
    const int k = PackBegin<kWarps, kPack>(i);
    if (k < depth) AddProducts<kRows>(a, rows, first.packs[i], k, depth, sums);
  }
#pragma unroll 4
  for (int k = PackBegin<kWarps, kPack>(kFirst); k < depth; k += kWarps * 32 * kPack) {
    const Pack column = LoadWeights<kPack>(weights, k);
    AddProducts<kRows>(a, rows, column, k, depth, sums);
  }
  float result = SumOverWarp(sums);
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
