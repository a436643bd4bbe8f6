// The products of the hidden state and the recurrent weights, which are a part of the gates of
// recurrent cells.

// sums[row][gate] += the dot product of the row's state and the weights of one unit of that gate.
// `state` has kUnits elements per row. `weights` points to the weight of the unit in the first
// gate: the state's element k has a row of kPitch weights, and the next gate is kUnits weights
// further on.
template <int kUnits, int kPitch, int kRows, int kGates, class Real, class Weight>
__device__ __forceinline__ void AddProducts(const Real* state, const Weight* weights,
                                            Real (&sums)[kRows][kGates]) {
#pragma unroll 4
  for (int k = 0; k < kUnits; ++k) {
#pragma unroll
    for (int gate = 0; gate < kGates; ++gate) {
      const Weight weight = weights[k * (long long)kPitch + gate * kUnits];
      Real factor;
      if constexpr (sizeof(Weight) < sizeof(float))
        factor = ToFloat(weight);
      else
        factor = weight;
#pragma unroll
      for (int row = 0; row < kRows; ++row) sums[row][gate] += state[row * kUnits + k] * factor;
    }
  }
}

// The same for kLanes consecutive units at once, as CPU vector instructions compute them.
template <int kUnits, int kPitch, int kRows, int kGates, int kLanes, class Real, class Weight>
__device__ __forceinline__ void AddProductsOfLanes(const Real* state, const Weight* weights,
                                                   Real (&sums)[kRows][kGates][kLanes]) {
  for (int k = 0; k < kUnits; ++k) {
#pragma GCC unroll 4
    for (int gate = 0; gate < kGates; ++gate) {
      const Weight* of_gate = weights + k * (long long)kPitch + gate * kUnits;
      Real factors[kLanes];
#pragma omp simd
      for (int lane = 0; lane < kLanes; ++lane) {
        if constexpr (sizeof(Weight) < sizeof(float))
          factors[lane] = ToFloat(of_gate[lane]);
        else
          factors[lane] = of_gate[lane];
      }
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        const Real element = state[row * kUnits + k];
#pragma omp simd
        for (int lane = 0; lane < kLanes; ++lane) sums[row][gate][lane] += element * factors[lane];
      }
    }
  }
}

// `x` clamped to -limit..limit. NaN stays NaN.
template <class Real>
__device__ __forceinline__ Real Clipped(Real x, Real limit) {
  return x > limit ? limit : x < -limit ? -limit : x;
}
