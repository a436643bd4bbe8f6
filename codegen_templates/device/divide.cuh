// Integer division toward zero. Division by zero gives 0, and the smallest integer divided by -1
// wraps to itself; the division instruction of a CPU would raise a signal in both cases.
template <class Int>
__device__ __forceinline__ Int Divide(Int a, Int b) {
  constexpr bool kSigned = Int(-1) < Int(1);
  if (b == 0) return 0;
  if (kSigned && b == Int(-1)) return Int(0 - static_cast<unsigned long long>(a));
  return Int(a / b);
}
