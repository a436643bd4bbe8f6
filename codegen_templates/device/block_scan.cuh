// Running folds over the threads of a block.

// The value of the lane `distance` below this one in the warp; of the first lanes, their own.
template <class T>
__device__ T ShuffleUp(T value, int distance) {
  if constexpr (sizeof(T) < sizeof(int)) {
    return static_cast<T>(__shfl_up_sync(~0u, static_cast<int>(value), distance));
  } else {
    return __shfl_up_sync(~0u, value, distance);
  }
}

// Combines `total` with the elements of all threads before this one, and returns the result; then
// `total` is combined with those of all threads. `scratch`, in shared memory, has room for one
// element per warp and may be reused after the call. blockDim.x must be a multiple of 32.
template <class How, class T>
__device__ T BlockScan(T element, T& total, T* scratch) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  T in_warp = element;  // of the lanes up to this one
  for (int distance = 1; distance < 32; distance *= 2) {
    const T below = ShuffleUp(in_warp, distance);
    if (lane >= distance) in_warp = How::Combine(below, in_warp);
  }
  if (lane == 31) scratch[warp] = in_warp;
  const T lanes_before = ShuffleUp(in_warp, 1);
  __syncthreads();
  T before = total;
  for (int other = 0; other < warps; ++other) {
    if (other == warp) before = total;
    total = How::Combine(total, scratch[other]);
  }
  __syncthreads();
  return lane > 0 ? How::Combine(before, lanes_before) : before;
}
