// One pass of a radix sort: numbers are put into the order of one of their digits, of kBits bits,
// and otherwise stay in the order that they have.

template <int kShift, int kBits, class Key>
__device__ __forceinline__ int DigitOf(Key key) {
  return static_cast<int>(key >> kShift) & ((1 << kBits) - 1);
}

// Adds the digits of all lanes of a warp to the warp's `counts`. Returns how many equal digits are
// before this lane's, in earlier calls and in lower lanes. A lane without a number has the digit
// 1 << kBits. All lanes must call this together.
template <int kBits>
__device__ __forceinline__ int CountDigit(int digit, unsigned short* counts) {
  unsigned same = __ballot_sync(~0u, true);  // the lanes with the same digit
  #pragma unroll
  for (int bit = 0; bit <= kBits; ++bit) {
    const bool is_set = (digit >> bit & 1) != 0;
    const unsigned set = __ballot_sync(~0u, is_set);
    same &= is_set ? set : ~set;
  }
  const unsigned lower = same & ((1u << threadIdx.x % 32) - 1);
  const int before = counts[digit];
  __syncwarp();
  if (lower == 0) counts[digit] = static_cast<unsigned short>(before + __popc(same));
  __syncwarp();
  return before + __popc(lower);
}

// How many numbers of the block have a digit.
template <int kWarps, int kRow>
__device__ __forceinline__ int CountInWarps(const unsigned short (&counts)[kWarps][kRow],
                                            int digit) {
  int count = 0;
  #pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) count += counts[warp][digit];
  return count;
}

// Replaces the counts of a digit in each warp by the place of the warp's first number with that
// digit; those of the block begin at `place`.
template <int kWarps, int kRow>
__device__ __forceinline__ void PlaceDigit(unsigned short (&counts)[kWarps][kRow], int digit,
                                           int place) {
  #pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    const int count = counts[warp][digit];
    counts[warp][digit] = static_cast<unsigned short>(place);
    place += count;
  }
}
