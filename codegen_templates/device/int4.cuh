// The 4-bit integer of `column` in the byte that holds it: even columns are in the low 4 bits, odd
// columns in the high 4 bits.
__device__ __forceinline__ unsigned char Int4At(unsigned char byte, long long column) {
  return column % 2 == 0 ? byte & 15 : byte >> 4;
}
