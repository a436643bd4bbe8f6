// The first of the elements that the threads of a block hold, for sorts of which only these are
// wanted. Thread t holds the bits (SortBits) of the elements at t, t + blockDim.x, ..., kOwn in all.

// For how many elements of the block `is_in(bits, place)` holds. `counts`, in shared memory, has
// room for one number per warp; it must not be the one of the previous call.
template <int kOwn, class Bits, class IsIn>
__device__ int CountOfBlock(const Bits (&own)[kOwn], IsIn is_in, int* counts) {
  int count = 0;
  #pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    count += is_in(own[i], static_cast<int>(threadIdx.x + i * blockDim.x));
  }
  count = WarpReduce<SumOf>(count);
  if (threadIdx.x % 32 == 0) counts[threadIdx.x / 32] = count;
  __syncthreads();
  int total = 0;
  const int warps = blockDim.x / 32;
  for (int warp = 0; warp < warps; ++warp) total += counts[warp];
  return total;
}

// Bits that no fewer than `wanted` elements come up to, but few more if the elements are in no
// particular order: the first elements of so many threads do.
template <int kOwn, class Bits>
__device__ Bits BoundOfFirst(const Bits (&own)[kOwn], int wanted) {
  Bits first = own[0];
  #pragma unroll
  for (int i = 1; i < kOwn; ++i) first = own[i] < first ? own[i] : first;
  Bits low = 0, high = ~Bits(0);
  while (low < high) {
    const Bits middle = low + (high - low) / 2;
    const int threads = __syncthreads_count(first <= middle);
    if (threads == wanted) return middle;
    if (threads < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return high;
}

// Writes the keys of the `wanted` first elements, sorted, to the front of `chosen`, in shared memory,
// which has room for kKeys of each thread; it uses kChosen of these, a power of two. `counts`, in
// shared memory, has room for two numbers per warp.
//
// If no more elements come up to the bound than there is room for, all of these are sorted.
// Otherwise the last of the wanted elements is found by bisection: first its bits, and if several
// elements have these, its place.
template <int kChosen, int kKeys, int kOwn, class Bits, class Key>
__device__ void ChooseFirst(const Bits (&own)[kOwn], int wanted, Key* chosen, int* counts) {
  __shared__ int taken;
  for (int i = threadIdx.x; i < kChosen; i += blockDim.x) chosen[i] = NoElement<Key>();
  if (threadIdx.x == 0) taken = 0;
  int* const spare[2] = {counts, counts + blockDim.x / 32};
  Bits low = 0;
  Bits high = wanted > blockDim.x ? ~Bits(0) : BoundOfFirst(own, wanted);
  int found = CountOfBlock(own, [&](Bits bits, int) { return bits <= high; }, spare[0]);
  int turn = 0, first = 0, last = kOwn * blockDim.x - 1;
  if (found > kChosen) {
    while (low < high && found != wanted) {
      const Bits middle = low + (high - low) / 2;
      found = CountOfBlock(own, [&](Bits bits, int) { return bits <= middle; }, spare[turn ^= 1]);
      if (found < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    while (first < last && found != wanted) {
      const int middle = (first + last) / 2;
      const auto is_in = [&](Bits bits, int at) {
        return bits < high || (bits == high && at <= middle);
      };
      found = CountOfBlock(own, is_in, spare[turn ^= 1]);
      if (found < wanted) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
  }
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int at = threadIdx.x + i * blockDim.x;
    if (wanted > 0 && (own[i] < high || (own[i] == high && at <= last)))
      chosen[atomicAdd(&taken, 1)] = KeyOf(own[i], static_cast<unsigned>(at));
  }
  __syncthreads();
  Key keys[kKeys];
  #pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    const int at = threadIdx.x * kKeys + i;
    keys[i] = at < kChosen ? chosen[at] : NoElement<Key>();
  }
  __syncthreads();
  SortParts<kChosen, kKeys>(keys, chosen);
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < kKeys; ++i) {
    const int at = threadIdx.x * kKeys + i;
    if (at < kChosen) chosen[at] = keys[i];
  }
  __syncthreads();
}
