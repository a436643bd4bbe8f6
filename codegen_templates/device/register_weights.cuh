// The recurrent weights of a layer (those that multiply its state), distributed over the registers
// of a block.
//
// Each thread gets the sum of one column of the weights. Four neighboring threads, a quad, compute
// the sums of their four columns together: each thread multiplies every fourth vector of the state
// by the weights of all four columns, so that a vector is read from shared memory once for four
// columns.

// The number of threads of a quad, of its columns, and of elements of a vector.
constexpr int kQuad = 4;

// The weights that a thread keeps: at[vector][element][i] meets that element of the state in column
// i of the quad.
template <int kVectors>
struct RegisterWeights {
  float at[kVectors][kQuad][kQuad];
};

// Reads the weights of this thread from a matrix of kUnits x kColumns; weights outside of the
// matrix are zeros.
template <int kUnits, int kColumns, int kVectors, class Weight>
__device__ __forceinline__ RegisterWeights<kVectors> ReadWeights(const Weight* weights) {
  const int thread_of_quad = threadIdx.x % kQuad;
  const int first_column = threadIdx.x - thread_of_quad;
  RegisterWeights<kVectors> kept;
#pragma unroll
  for (int vector = 0; vector < kVectors; ++vector) {
#pragma unroll
    for (int element = 0; element < kQuad; ++element) {
      const int k = (vector * kQuad + thread_of_quad) * kQuad + element;
#pragma unroll
      for (int i = 0; i < kQuad; ++i) {
        const int column = first_column + i;
        float weight = 0.0f;
        if (k < kUnits && column < kColumns) {
          if constexpr (sizeof(Weight) < sizeof(float))
            weight = ToFloat(weights[k * kColumns + column]);
          else
            weight = weights[k * kColumns + column];
        }
        kept.at[vector][element][i] = weight;
      }
    }
  }
  return kept;
}

// The dot product of the state and the calling thread's column. The state is aligned to 16 bytes
// and padded with zeros to kVectors * 16 elements. All threads of a warp must call this together.
template <int kVectors>
__device__ __forceinline__ float ColumnProduct(const float* state,
                                               const RegisterWeights<kVectors>& weights) {
  const int thread_of_quad = threadIdx.x % kQuad;
  float sums[kQuad] = {};
#pragma unroll
  for (int vector = 0; vector < kVectors; ++vector) {
    const Vector<float, kQuad> elements =
        LoadVector<kQuad>(state + (vector * kQuad + thread_of_quad) * kQuad);
#pragma unroll
    for (int element = 0; element < kQuad; ++element) {
#pragma unroll
      for (int i = 0; i < kQuad; ++i)
        sums[i] += elements.at[element] * weights.at[vector][element][i];
    }
  }
  // In two steps, the thread passes on the half of its sums that does not contain its own column.
  const bool is_upper = thread_of_quad >= kQuad / 2;
  const float given_even = is_upper ? sums[0] : sums[2];
  const float given_odd = is_upper ? sums[1] : sums[3];
  const float even = (is_upper ? sums[2] : sums[0]) + __shfl_xor_sync(~0u, given_even, kQuad / 2);
  const float odd = (is_upper ? sums[3] : sums[1]) + __shfl_xor_sync(~0u, given_odd, kQuad / 2);
  const bool is_odd = thread_of_quad % 2 == 1;
  return (is_odd ? odd : even) + __shfl_xor_sync(~0u, is_odd ? even : odd, 1);
}
