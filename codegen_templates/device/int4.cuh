// Of the two integers of 4 bits in a byte, that of `column`: the low bits are that of an even one.
__device__ __forceinline__ unsigned char Int4At(unsigned char byte, long long column) {
  return column % 2 == 0 ? byte & 15 : byte >> 4;
}
