// The product a x b^T for few rows of a on a CPU, where the kernel computes the weights, b, as it
// needs them: the weights of one column at a time, which stay in the cache for all rows of a.

__device__ __forceinline__ float ToFloat(float x) { return x; }

// Computes the weights of a column. `weights(pack, made)` computes kPack consecutive ones.
template <int kPack, class Weights>
__device__ __forceinline__ void MakeColumn(const Weights& weights, int depth, float* column) {
  for (int k = 0; k < depth; k += kPack) {
    weights(k / kPack, *reinterpret_cast<Vector<float, kPack>*>(column + k));
  }
}

// sums[row] = the sum of the products of a row's elements and a column's weights, for each row.
template <class T>
__device__ __forceinline__ void MultiplyRows(const T* rows, int count, const float* column,
                                             int depth, float* sums) {
  int row = 0;
  for (; row + 4 <= count; row += 4) {  // four rows share the loads of the weights
    const T *a = rows + static_cast<long long>(row) * depth, *b = a + depth, *c = b + depth,
            *d = c + depth;
    float of_a = 0.0f, of_b = 0.0f, of_c = 0.0f, of_d = 0.0f;
#pragma omp simd reduction(+ : of_a, of_b, of_c, of_d)
    for (int k = 0; k < depth; ++k) {
      of_a += ToFloat(a[k]) * column[k];
      of_b += ToFloat(b[k]) * column[k];
      of_c += ToFloat(c[k]) * column[k];
      of_d += ToFloat(d[k]) * column[k];
    }
    sums[row] = of_a, sums[row + 1] = of_b, sums[row + 2] = of_c, sums[row + 3] = of_d;
  }
  for (; row < count; ++row) {  // four sums, which need not wait for each other
    const T* a = rows + static_cast<long long>(row) * depth;
    const int part = depth / 4;
    float first = 0.0f, second = 0.0f, third = 0.0f, fourth = 0.0f;
#pragma omp simd reduction(+ : first, second, third, fourth)
    for (int k = 0; k < part; ++k) {
      first += ToFloat(a[k]) * column[k];
      second += ToFloat(a[k + part]) * column[k + part];
      third += ToFloat(a[k + 2 * part]) * column[k + 2 * part];
      fourth += ToFloat(a[k + 3 * part]) * column[k + 3 * part];
    }
    float rest = 0.0f;
    for (int k = 4 * part; k < depth; ++k) rest += ToFloat(a[k]) * column[k];
    sums[row] = (first + second) + (third + fourth) + rest;
  }
}
