// The product a x b^T for few rows of a on a CPU, where the kernel computes the weights, b, as it
// needs them: a part of a column at a time, which stays in the cache for all rows of a.

__device__ __forceinline__ float ToFloat(float x) { return x; }

// sums[row] += the products of `length` elements of a row and as many weights, for each row. Rows
// are `stride` elements apart.
template <class T>
__device__ __forceinline__ void AddProducts(const T* rows, int count, int stride,
                                            const float* weights, int length, float* sums) {
  int row = 0;
  for (; row + 4 <= count; row += 4) {  // four rows share the loads of the weights
    const T *a = rows + static_cast<long long>(row) * stride, *b = a + stride, *c = b + stride,
            *d = c + stride;
    float of_a = 0.0f, of_b = 0.0f, of_c = 0.0f, of_d = 0.0f;
#pragma omp simd reduction(+ : of_a, of_b, of_c, of_d)
    for (int k = 0; k < length; ++k) {
      of_a += ToFloat(a[k]) * weights[k];
      of_b += ToFloat(b[k]) * weights[k];
      of_c += ToFloat(c[k]) * weights[k];
      of_d += ToFloat(d[k]) * weights[k];
    }
    sums[row] += of_a, sums[row + 1] += of_b, sums[row + 2] += of_c, sums[row + 3] += of_d;
  }
  for (; row < count; ++row) {  // four sums, which need not wait for each other
    const T* a = rows + static_cast<long long>(row) * stride;
    const int part = length / 4;
    float first = 0.0f, second = 0.0f, third = 0.0f, fourth = 0.0f;
#pragma omp simd reduction(+ : first, second, third, fourth)
    for (int k = 0; k < part; ++k) {
      first += ToFloat(a[k]) * weights[k];
      second += ToFloat(a[k + part]) * weights[k + part];
      third += ToFloat(a[k + 2 * part]) * weights[k + 2 * part];
      fourth += ToFloat(a[k + 3 * part]) * weights[k + 3 * part];
    }
    float rest = 0.0f;
    for (int k = 4 * part; k < length; ++k) rest += ToFloat(a[k]) * weights[k];
    sums[row] += (first + second) + (third + fourth) + rest;
  }
}

// Multiplies a column of `depth` weights by `count` rows. `weights(pack, made)` computes kPack
// consecutive weights; kPack is a power of two.
template <int kPack, class T, class Weights>
__device__ __forceinline__ void MultiplyColumn(const T* rows, int count, const Weights& weights,
                                               int depth, float* sums) {
  constexpr int kPart = 2048;  // weights of a column, in the first-level cache
  alignas(64) float part[kPart];
  for (int row = 0; row < count; ++row) sums[row] = 0.0f;
  for (int first = 0; first < depth; first += kPart) {
    const int length = depth - first < kPart ? depth - first : kPart;
    for (int k = 0; k < length; k += kPack)
      weights((first + k) / kPack, *reinterpret_cast<Vector<float, kPack>*>(part + k));
    AddProducts(rows + first, count, depth, part, length, sums);
  }
}
