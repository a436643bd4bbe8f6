// Integer division toward zero. By zero it gives 0, and the smallest integer over -1 wraps to
// itself; plain division would stop a CPU with a signal on both.
template <class Int>
__device__ __forceinline__ Int Divide(Int a, Int b) {
  constexpr bool kSigned = Int(-1) < Int(1);
  if (b == 0) return 0;
  if (kSigned && b == Int(-1)) return Int(0 - static_cast<unsigned long long>(a));
  return Int(a / b);
}
