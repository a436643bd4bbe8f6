#include "runtime/src/cpu/host_matmul.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "runtime/src/parallel.h"

#if defined(__x86_64__)
#define FUSEC_HOST_X86 1
#endif

namespace fusec::runtime {
namespace {

// A tile of d: 6 rows of one 64-byte vector. 6 accumulators leave room for b's vector and a's
// broadcast even where a vector takes two 32-byte registers.
constexpr int kRows = 6;
constexpr int kVectorBytes = 64;

template <class T>
using Vector [[gnu::vector_size(kVectorBytes)]] = T;
template <class T>
constexpr int kColumns = kVectorBytes / sizeof(T);

template <class T>
struct Tile {
  const T* a;         // element (i, k) at a[i * row_step + k * k_step]
  int64_t row_step, k_step, k;
  const T* panel;     // [k][kColumns], b's columns packed
  T* sums;            // [rows][kColumns]
};

template <class T, int rows>
[[gnu::always_inline]] inline void MultiplyTile(const Tile<T>& tile) {
  Vector<T> sums[rows] = {};
  for (int64_t k = 0; k < tile.k; ++k) {
    Vector<T> b;
    std::memcpy(&b, tile.panel + k * kColumns<T>, sizeof(b));
    // Not unrolled, the sums would stay in memory.
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) sums[i] += tile.a[i * tile.row_step + k * tile.k_step] * b;
  }
  std::memcpy(tile.sums, sums, sizeof(sums));
}

template <class T>
[[gnu::always_inline]] inline void MultiplyAnyTile(const Tile<T>& tile, int rows) {
  switch (rows) {
    case 1: return MultiplyTile<T, 1>(tile);
    case 2: return MultiplyTile<T, 2>(tile);
    case 3: return MultiplyTile<T, 3>(tile);
    case 4: return MultiplyTile<T, 4>(tile);
    case 5: return MultiplyTile<T, 5>(tile);
    default: return MultiplyTile<T, kRows>(tile);
  }
}

// The same code for three instruction sets; which one is asked of the machine, so that the library
// runs everywhere.
template <class T>
void MultiplyBaseline(const Tile<T>& tile, int rows) {
  MultiplyAnyTile(tile, rows);
}
#if FUSEC_HOST_X86
template <class T>
[[gnu::target("avx2,fma")]] void MultiplyAvx2(const Tile<T>& tile, int rows) {
  MultiplyAnyTile(tile, rows);
}
template <class T>
[[gnu::target("avx512f,avx512dq,fma")]] void MultiplyAvx512(const Tile<T>& tile, int rows) {
  MultiplyAnyTile(tile, rows);
}
#endif

template <class T>
auto ChooseMultiply() -> void (*)(const Tile<T>&, int) {
#if FUSEC_HOST_X86
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    return MultiplyAvx512<T>;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return MultiplyAvx2<T>;
#endif
  return MultiplyBaseline<T>;
}

template <class T>
T Activate(Activation activation, T x) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (activation) {
      case Activation::kNone: return x;
      case Activation::kRelu: return x < 0 ? T(0) : x;  // keeps NaN
      case Activation::kGeluTanh:
        // x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
        return x / 2 * (1 + std::tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x)));
      case Activation::kGeluErf: return x / 2 * (1 + std::erf(x * T(0.7071067811865476)));
      case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
      case Activation::kTanh: return std::tanh(x);
    }
  }
  return x;
}

// Copies columns [column, column + kColumns) of b into panel[k][kColumns], zeros beyond n.
template <class T>
void PackPanel(const HostMatmul& call, const T* b, int64_t column, T* panel) {
  const int64_t n = call.sizes.n, k = call.sizes.k;
  const int64_t columns = std::min<int64_t>(kColumns<T>, n - column);
  if (columns < kColumns<T>) std::fill(panel, panel + k * kColumns<T>, T(0));
  if (call.transpose_b) {
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t row = 0; row < k; ++row) {
        panel[row * kColumns<T> + j] = b[(column + j) * k + row];
      }
    }
  } else {
    for (int64_t row = 0; row < k; ++row) {
      std::memcpy(panel + row * kColumns<T>, b + row * n + column, columns * sizeof(T));
    }
  }
}

// Work is cut into (matrix of the batch, panel of columns, chunk of rows).
template <class T>
void Multiply(const HostMatmul& call, int threads) {
  const MatmulSizes& s = call.sizes;
  const auto multiply = ChooseMultiply<T>();
  const int64_t panels = (s.n + kColumns<T> - 1) / kColumns<T>;
  // Rows are only cut where the panels alone would leave threads without work, as each chunk packs
  // its panel anew.
  const int64_t wanted_chunks = (2 * threads + panels * s.batch - 1) / (panels * s.batch);
  const int64_t chunks = threads > 1 ? std::clamp<int64_t>(wanted_chunks, 1, (s.m + 63) / 64) : 1;
  const int64_t chunk_rows = (s.m + chunks - 1) / chunks;
  const T* packed = nullptr;
  if constexpr (std::is_same_v<T, float>) packed = call.panels;
  const auto work = [&](int64_t first, int64_t last) {
    std::vector<T> own_panel(packed ? 0 : s.k * kColumns<T>);
    T sums[kRows * kColumns<T>];
    for (int64_t task = first; task < last; ++task) {
      const int64_t chunk = task % chunks;
      const int64_t column = task / chunks % panels * kColumns<T>;
      const int64_t matrix = task / chunks / panels;
      const T* a = static_cast<const T*>(call.a) + matrix * s.a_stride;
      const T* b = static_cast<const T*>(call.b) + matrix * s.b_stride;
      T* d = static_cast<T*>(call.d) + matrix * s.d_stride;
      const T* addend = static_cast<const T*>(call.addend);
      if (addend) addend += matrix * s.d_stride;
      const int64_t columns = std::min<int64_t>(kColumns<T>, s.n - column);
      const int64_t end_row = std::min(s.m, (chunk + 1) * chunk_rows);
      const T* panel = packed ? packed + column * s.k : own_panel.data();
      if (!packed) PackPanel(call, b, column, own_panel.data());
      for (int64_t row = chunk * chunk_rows; row < end_row; row += kRows) {
        const int rows = static_cast<int>(std::min<int64_t>(kRows, end_row - row));
        const int64_t row_step = call.transpose_a ? 1 : s.k;
        const int64_t k_step = call.transpose_a ? s.m : 1;
        multiply({a + row * row_step, row_step, k_step, s.k, panel, sums}, rows);
        for (int i = 0; i < rows; ++i) {
          const int64_t place = (row + i) * s.n + column;
          T* to = d + place;
          const T* bias = call.bias ? static_cast<const T*>(call.bias) + column : nullptr;
          for (int64_t j = 0; j < columns; ++j) {
            T sum = sums[i * kColumns<T> + j];
            if (bias) sum += bias[j];
            if (addend) sum += addend[place + j];
            to[j] = Activate(call.activation, sum);
          }
        }
      }
    }
  };
  ParallelFor(threads, s.batch * panels * chunks, work);
}

}  // namespace

std::vector<float> PackPanels(const HostMatmul& call) {
  const int64_t n = call.sizes.n, k = call.sizes.k;
  const int64_t panels = (n + kColumns<float> - 1) / kColumns<float>;
  std::vector<float> packed(panels * k * kColumns<float>);
  for (int64_t i = 0; i < panels; ++i) {
    const int64_t column = i * kColumns<float>;
    PackPanel(call, static_cast<const float*>(call.b), column, &packed[column * k]);
  }
  return packed;
}

bool PlainMatmulHas(fusec_dtype dtype) {
  return dtype == FUSEC_F32 || dtype == FUSEC_F64 || dtype == FUSEC_I32 || dtype == FUSEC_I64 ||
         dtype == FUSEC_U32 || dtype == FUSEC_U64;
}

bool PlainMatmul(const HostMatmul& call, int threads) {
  if (!PlainMatmulHas(call.dtype)) return false;
  const bool is_float = call.dtype == FUSEC_F32 || call.dtype == FUSEC_F64;
  if (!is_float && call.activation != Activation::kNone) return false;
  if (call.sizes.IsEmpty()) return true;
  switch (call.dtype) {
    case FUSEC_F32: Multiply<float>(call, threads); break;
    case FUSEC_F64: Multiply<double>(call, threads); break;
    // Wrapping products of signed and unsigned numbers have the same bits.
    case FUSEC_I32:
    case FUSEC_U32: Multiply<uint32_t>(call, threads); break;
    default: Multiply<uint64_t>(call, threads); break;
  }
  return true;
}

}  // namespace fusec::runtime
