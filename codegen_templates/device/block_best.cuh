// The best element of a row, for argmax and argmin, over the threads of a warp or a block.

// An element and its position in the row; a thread without elements has position -1.
template <class T>
struct Best {
  T value;
  long long at;
};

// Whether `a` is better than `b`: greater, or less; of equal ones the first, or the last. A NaN is
// better than any number.
template <bool kGreatest, bool kLast, class T>
__device__ bool IsBetter(Best<T> a, Best<T> b) {
  if (a.at < 0 || b.at < 0) return b.at < 0 && a.at >= 0;
  const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
  if (a_is_nan != b_is_nan) return a_is_nan;
  if (!a_is_nan && a.value != b.value) return kGreatest == (a.value > b.value);
  return kLast == (a.at > b.at);
}

// The best of one element per thread of the warp. Every thread returns it.
template <bool kGreatest, bool kLast, class T>
__device__ Best<T> WarpBest(T value, long long at) {
  Best<T> best = {value, at};
  for (int distance = 16; distance > 0; distance /= 2) {
    const Best<T> other = {ShuffleXor(best.value, distance), ShuffleXor(best.at, distance)};
    if (IsBetter<kGreatest, kLast>(other, best)) best = other;
  }
  return best;
}

// The same over the block. `scratch`, in shared memory, has room for one element per warp and may
// be reused after the call. blockDim.x must be a multiple of 32.
template <bool kGreatest, bool kLast, class T>
__device__ Best<T> BlockBest(T value, long long at, Best<T>* scratch) {
  Best<T> best = WarpBest<kGreatest, kLast>(value, at);
  const int warps = blockDim.x / 32;
  if (warps == 1) return best;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = best;
  __syncthreads();
  best = scratch[0];
  for (int warp = 1; warp < warps; ++warp) {
    if (IsBetter<kGreatest, kLast>(scratch[warp], best)) best = scratch[warp];
  }
  __syncthreads();
  return best;
}
