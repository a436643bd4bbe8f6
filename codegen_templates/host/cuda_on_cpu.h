// Lets the text of a CUDA kernel that was planned with one thread per block compile as C++ for the
// CPU.
//
// Kernel and device text goes into `namespace fusec_kernels`. There, a kernel is a plain function
// that a CPU thread calls once per block, after it has set `blockIdx`. The work of a block consists
// of plain loops, which g++ vectorizes (-O3 -march=x86-64-v3 or -v4 -fno-math-errno
// -fno-trapping-math; without -ffast-math, so that NaN and infinity keep their meaning). No system
// header is included.
//
// expf, expm1f, tanhf, erff, logf and log1pf are written here without branches or calls, because a
// call of libm would prevent the vectorization of the loop around it. The comment above each
// function gives its largest error in units in the last place (ulp), measured against double
// precision over all floats, with hardware FMA. The bound holds for denormal arguments and results
// as well.
#ifndef FUSEC_CUDA_ON_CPU_H_  // usually pasted, where `#pragma once` would be a warning
#define FUSEC_CUDA_ON_CPU_H_

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
// An attribute of kernels that read memory conditionally. It works around a bug of g++ 12, which
// converts such reads to masked loads and, if a row of four is stored as two and two, reads the two
// from wrong addresses.
#ifdef __clang__
#define __plain_branches__
#else
#define __plain_branches__ __attribute__((optimize("no-tree-loop-if-convert")))
#endif
// A block is one thread, so its shared memory is on the stack of the thread.
#define __shared__

namespace fusec_kernels {

struct Dim3 {
  unsigned x, y, z;
};
constexpr Dim3 threadIdx{0, 0, 0};
constexpr Dim3 blockDim{1, 1, 1};
[[maybe_unused]] static thread_local Dim3 blockIdx{0, 0, 0};

__forceinline__ void __syncthreads() {}
__forceinline__ void __syncwarp(unsigned = 0xffffffffu) {}
__forceinline__ void __threadfence() {}

// A warp has one lane, so that a shuffle returns the lane's own value.
template <class T>
__forceinline__ T __shfl_sync(unsigned, T value, int, int = 1) {
  return value;
}
template <class T>
__forceinline__ T __shfl_down_sync(unsigned, T value, unsigned, int = 1) {
  return value;
}
template <class T>
__forceinline__ T __shfl_up_sync(unsigned, T value, unsigned, int = 1) {
  return value;
}
template <class T>
__forceinline__ T __shfl_xor_sync(unsigned, T value, int, int = 1) {
  return value;
}
__forceinline__ bool __all_sync(unsigned, bool holds) { return holds; }
__forceinline__ unsigned __ballot_sync(unsigned, bool holds) { return holds ? 1u : 0u; }
__forceinline__ int __popc(unsigned bits) { return __builtin_popcount(bits); }
__forceinline__ int __syncthreads_and(int holds) { return holds != 0; }
__forceinline__ int __syncthreads_count(int holds) { return holds != 0; }

// Blocks run on several CPU threads, so this is a real atomic.
__forceinline__ int atomicCAS(int* address, int expected, int desired) {
  __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
  return expected;
}
template <class T>
__forceinline__ T atomicAdd(T* address, T added) {
  return __atomic_fetch_add(address, added, __ATOMIC_RELAXED);
}
template <class T>
__forceinline__ T atomicExch(T* address, T desired) {
  return __atomic_exchange_n(address, desired, __ATOMIC_RELAXED);
}
template <class T>
__forceinline__ T __ldg(const T* address) {
  return *address;
}

// ---- Bits ----

__forceinline__ int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
__forceinline__ unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
__forceinline__ float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
__forceinline__ float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
__forceinline__ long long __double_as_longlong(double x) {
  return __builtin_bit_cast(long long, x);
}
__forceinline__ double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }

// ---- Float functions that one instruction computes ----

__forceinline__ float fabsf(float x) { return __builtin_fabsf(x); }
__forceinline__ float sqrtf(float x) { return __builtin_sqrtf(x); }
__forceinline__ float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
__forceinline__ float floorf(float x) { return __builtin_floorf(x); }
__forceinline__ float ceilf(float x) { return __builtin_ceilf(x); }
__forceinline__ float truncf(float x) { return __builtin_truncf(x); }
__forceinline__ float rintf(float x) { return __builtin_rintf(x); }
__forceinline__ float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
__forceinline__ float copysignf(float x, float sign) { return __builtin_copysignf(x, sign); }
// As in C, if one argument is NaN, the result is the other one.
__forceinline__ float fmaxf(float x, float y) { return x > y || y != y ? x : y; }
__forceinline__ float fminf(float x, float y) { return x < y || y != y ? x : y; }

// ---- Float functions by polynomials ----

// x = n ln 2 + r with an integer n and |r| <= ln 2 / 2 (for |x| < 2^21).
struct ReducedExponent {
  float r, rounded;  // `rounded` is n as a float
  int n;
};
__forceinline__ ReducedExponent ReduceExponent(float x) {
  // Adding 1.5 * 2^23 rounds to an integer, which the low bits of the sum then hold.
  constexpr float kShift = 12582912.0f;
  const float shifted = fmaf(x, 1.44269504f, kShift);
  const float rounded = shifted - kShift;
  const float r = fmaf(rounded, 1.90465421e-9f, fmaf(rounded, -0.693147182f, x));
  return {r, rounded, __float_as_int(shifted) - __float_as_int(kShift)};
}
// e^r - 1 for |r| <= ln 2 / 2: r + r^2 times a minimax polynomial of degree 4 (error 3e-9).
__forceinline__ float ReducedExpm1(float r) {
  float p = fmaf(r, 0.00138142193f, 0.00836889911f);
  p = fmaf(r, p, 0.0416684076f);
  p = fmaf(r, p, 0.166665196f);
  p = fmaf(r, p, 0.49999994f);
  return fmaf(r * r, p, r);
}
__forceinline__ float PowerOfTwo(int n) {  // -126 <= n <= 127
  return __uint_as_float(static_cast<unsigned>(n + 127) << 23);
}

// Largest error: 1.01 ulp.
__forceinline__ float expf(float x) {
  // Beyond these bounds the result is infinity or zero; the comparisons let NaN through.
  const bool vanishes = x < -104.0f;
  x = x > 89.0f ? 89.0f : x;
  const ReducedExponent e = ReduceExponent(vanishes ? -104.0f : x);
  // 2^n in two factors: n reaches 128, and -150 where the result is denormal. Results of zero,
  // which are frequent with masks, come from a factor of zero: a product that underflows takes ten
  // times as long.
  const int half = e.n >> 1;
  const float rest = vanishes ? 0.0f : PowerOfTwo(e.n - half);
  return (1.0f + ReducedExpm1(e.r)) * PowerOfTwo(half) * rest;
}

// Largest error: 1.46 ulp.
__forceinline__ float expm1f(float x) {
  float clamped = x > 89.0f ? 89.0f : x;
  clamped = clamped < -30.0f ? -30.0f : clamped;
  const ReducedExponent e = ReduceExponent(clamped);
  // 2^n e^r - 1 = 2^n (e^r - 1) + (2^n - 1). For n = 128, n = 127 is used and the result doubled.
  const bool overflows = e.n > 127;
  const float scale = PowerOfTwo(overflows ? 127 : e.n);
  const float y = fmaf(scale, ReducedExpm1(e.r), scale - 1.0f);
  return copysignf(overflows ? y + y : y, x);  // keeps -0
}

// tanh x = m / (m + 2) with m = e^(2x) - 1. Largest error: 2.61 ulp.
__forceinline__ float tanhf(float x) {
  const float magnitude = fabsf(x);
  const float m = expm1f(magnitude > 15.0f ? 30.0f : 2.0f * magnitude);
  return copysignf(m / (m + 2.0f), x);
}

// x + x p(x^2) for small x, 1 - e^p(|x|) beyond, both minimax. Largest error: 1.23 ulp.
__forceinline__ float erff(float x) {
  const float magnitude = fabsf(x);
  const float square = x * x;
  float small = fmaf(square, 8.34522507e-05f, -0.00081374374f);
  small = fmaf(square, small, 0.00520063424f);
  small = fmaf(square, small, -0.0268592704f);
  small = fmaf(square, small, 0.112836942f);
  small = fmaf(square, small, -0.376126349f);
  small = fmaf(square, small, 0.128379166f);
  small = fmaf(x, small, x);
  const float t = magnitude > 4.0f ? 4.0f : magnitude;
  float large = fmaf(t, 0.000196070978f, -0.00304474146f);
  large = fmaf(t, large, 0.0222339053f);
  large = fmaf(t, large, -0.103948087f);
  large = fmaf(t, large, -0.637161076f);
  large = fmaf(t, large, -1.12768972f);
  large = fmaf(t, large, -0.00019191629f);
  const ReducedExponent e = ReduceExponent(large);
  const float scale = PowerOfTwo(e.n);
  large = 1.0f - fmaf(scale, ReducedExpm1(e.r), scale);
  return magnitude > 0.92f ? copysignf(large, x) : small;
}

// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log x = e ln 2 + f - f^2/2 + f^3 p(f).
// Largest error: 0.87 ulp.
__forceinline__ float logf(float x) {
  const bool denormal = x < 1.17549435e-38f;
  const float scaled = denormal ? x * 8388608.0f : x;
  const int bits = __float_as_int(scaled) - 0x3f3504f3;  // the bits of sqrt(1/2)
  const float e = static_cast<float>(bits >> 23) - (denormal ? 23.0f : 0.0f);
  const float f = __int_as_float((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
  float p = fmaf(f, -0.0763442963f, 0.127615497f);
  p = fmaf(f, p, -0.131601945f);
  p = fmaf(f, p, 0.142017618f);
  p = fmaf(f, p, -0.166233569f);
  p = fmaf(f, p, 0.200012267f);
  p = fmaf(f, p, -0.250008225f);
  p = fmaf(f, p, 0.333333313f);
  const float square = f * f;
  // ln 2 in two parts, the first so short that its products with e are exact.
  float y = fmaf(e, -2.12194440e-4f, f * square * p);
  y = fmaf(square, -0.5f, y);
  y = fmaf(e, 0.693359375f, f + y);
  y = x == __builtin_huge_valf() || x != x ? x : y;
  y = x == 0.0f ? -__builtin_huge_valf() : y;
  return x < 0.0f ? __builtin_nanf("") : y;
}

// log u + (x - (u - 1)) / u with u the rounded 1 + x. Largest error: 1.44 ulp.
__forceinline__ float log1pf(float x) {
  const float u = 1.0f + x;
  const float y = logf(u) + (x - (u - 1.0f)) / u;
  const bool keep = u == 1.0f || x == __builtin_huge_valf();  // 1 + x rounded to 1
  return keep ? x : x == -1.0f ? -__builtin_huge_valf() : y;
}

// ---- Functions of libm; a loop that calls one is not vectorized ----

#define FUSEC_LIBM_1(name)                                                      \
  __forceinline__ float name##f(float x) { return __builtin_##name##f(x); }
FUSEC_LIBM_1(acos) FUSEC_LIBM_1(acosh) FUSEC_LIBM_1(asin) FUSEC_LIBM_1(asinh) FUSEC_LIBM_1(atan)
FUSEC_LIBM_1(atanh) FUSEC_LIBM_1(cos) FUSEC_LIBM_1(cosh) FUSEC_LIBM_1(erfc) FUSEC_LIBM_1(exp2)
FUSEC_LIBM_1(log2) FUSEC_LIBM_1(log10) FUSEC_LIBM_1(sin) FUSEC_LIBM_1(sinh) FUSEC_LIBM_1(tan)
#undef FUSEC_LIBM_1
__forceinline__ float powf(float x, float y) { return __builtin_powf(x, y); }
__forceinline__ float fmodf(float x, float y) { return __builtin_fmodf(x, y); }

// Every double function calls libm, and the name without f accepts floats too, as in CUDA.
#define FUSEC_BOTH_1(name)                                                      \
  __forceinline__ double name(double x) { return __builtin_##name(x); }         \
  __forceinline__ float name(float x) { return name##f(x); }
FUSEC_BOTH_1(acos) FUSEC_BOTH_1(acosh) FUSEC_BOTH_1(asin) FUSEC_BOTH_1(asinh) FUSEC_BOTH_1(atan)
FUSEC_BOTH_1(atanh) FUSEC_BOTH_1(ceil) FUSEC_BOTH_1(cos) FUSEC_BOTH_1(cosh) FUSEC_BOTH_1(erf)
FUSEC_BOTH_1(erfc) FUSEC_BOTH_1(exp) FUSEC_BOTH_1(exp2) FUSEC_BOTH_1(expm1) FUSEC_BOTH_1(fabs)
FUSEC_BOTH_1(floor) FUSEC_BOTH_1(log) FUSEC_BOTH_1(log10) FUSEC_BOTH_1(log1p) FUSEC_BOTH_1(log2)
FUSEC_BOTH_1(rint) FUSEC_BOTH_1(sin) FUSEC_BOTH_1(sinh) FUSEC_BOTH_1(sqrt) FUSEC_BOTH_1(tan)
FUSEC_BOTH_1(tanh) FUSEC_BOTH_1(trunc)
#undef FUSEC_BOTH_1
#define FUSEC_BOTH_2(name)                                                                    \
  __forceinline__ double name(double x, double y) { return __builtin_##name(x, y); }          \
  __forceinline__ float name(float x, float y) { return name##f(x, y); }
FUSEC_BOTH_2(copysign) FUSEC_BOTH_2(fmax) FUSEC_BOTH_2(fmin) FUSEC_BOTH_2(fmod) FUSEC_BOTH_2(pow)
#undef FUSEC_BOTH_2
__forceinline__ double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
__forceinline__ double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }

#define FUSEC_MIN_MAX(T)                                                        \
  __forceinline__ T min(T x, T y) { return x < y ? x : y; }                     \
  __forceinline__ T max(T x, T y) { return x > y ? x : y; }
FUSEC_MIN_MAX(int) FUSEC_MIN_MAX(unsigned) FUSEC_MIN_MAX(long long)
FUSEC_MIN_MAX(unsigned long long)
#undef FUSEC_MIN_MAX

// ---- The 16-bit float formats (half.cuh), as bit patterns; integer arithmetic, so that it vectorises ----

// `a` if the condition holds, else `b`. A conditional expression would become a branch in kernels
// with the attribute __plain_branches__, whose loops could then not be vectorised.
__forceinline__ unsigned Select(bool condition, unsigned a, unsigned b) {
  const unsigned mask = -static_cast<unsigned>(condition);
  return (a & mask) | (b & ~mask);
}
__forceinline__ float HalfBitsToFloat(unsigned short bits) {
  const unsigned magnitude = bits & 0x7fffu;
  // The fields land where a float has them; the factor 2^112 corrects the exponent bias, for
  // denormals too.
  const float finite = __uint_as_float(magnitude << 13) * 0x1p112f;
  const unsigned special = Select(magnitude >= 0x7c00u, 0x7f800000u, 0u);  // infinity and NaN
  const unsigned sign = static_cast<unsigned>(bits & 0x8000u) << 16;
  return __uint_as_float(__float_as_uint(finite) | special | sign);
}
__forceinline__ unsigned short FloatToHalfBits(float x) {
  const unsigned magnitude = __float_as_uint(x) & 0x7fffffffu;
  const unsigned normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  // Below 2^-14: adding 0.5 makes the adder round to the multiple of 2^-24 that a denormal holds.
  const unsigned denormal = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u;
  unsigned result = Select(magnitude < 0x38800000u, denormal, normal);
  result = Select(magnitude >= 0x47800000u, 0x7c00u, result);  // 2^16 and more: infinity
  result = Select(magnitude > 0x7f800000u, 0x7e00u, result);   // NaN
  return static_cast<unsigned short>(result | (__float_as_uint(x) >> 16 & 0x8000u));
}
__forceinline__ unsigned short FloatToBFloat16Bits(float x) {
  const unsigned bits = __float_as_uint(x);
  const unsigned rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;  // to nearest, ties to even
  return static_cast<unsigned short>(Select(x != x, (bits >> 16) | 0x40u, rounded));
}

}  // namespace fusec_kernels

#endif  // FUSEC_CUDA_ON_CPU_H_
