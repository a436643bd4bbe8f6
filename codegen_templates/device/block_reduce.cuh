// Reductions over the threads of a warp or a block.

// Combines two values into their sum.
struct SumOf {
  template <class T>
  __device__ static T Combine(T a, T b) {
    return a + b;
  }
};

// Combines two values into their product.
struct ProductOf {
  template <class T>
  __device__ static T Combine(T a, T b) {
    return a * b;
  }
};

// Combines two values into the larger one, or NaN if either is NaN.
struct LargerOf {
  template <class T>
  __device__ static T Combine(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

// Combines two values into the smaller one, or NaN if either is NaN.
struct SmallerOf {
  template <class T>
  __device__ static T Combine(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

// The value of the lane whose number is this lane's number XOR `distance`. Shuffles move 32 or 64
// bits, so smaller types are passed as int.
template <class T>
__device__ T ShuffleXor(T value, int distance) {
  if constexpr (sizeof(T) < sizeof(int)) {
    return static_cast<T>(__shfl_xor_sync(~0u, static_cast<int>(value), distance));
  } else {
    return __shfl_xor_sync(~0u, value, distance);
  }
}

// Combines one value per thread over the warp. Every thread returns the result.
template <class How, class T>
__device__ T WarpReduce(T value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = How::Combine(value, ShuffleXor(value, distance));
  }
  return value;
}

// Combines one value per thread over the block. Every thread returns the result. `scratch`, in
// shared memory, has room for one value per warp and may be reused after the call. blockDim.x must
// be a multiple of 32.
template <class How, class T>
__device__ T BlockReduce(T value, T* scratch) {
  value = WarpReduce<How>(value);
  const int warps = blockDim.x / 32;
  if (warps == 1) return value;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  T total = scratch[0];
  for (int warp = 1; warp < warps; ++warp) total = How::Combine(total, scratch[warp]);
  __syncthreads();
  return total;
}
