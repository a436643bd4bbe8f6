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

// Columns of b are packed into panels of 64 bytes per row. A tile of d has 6 rows by one panel, in
// vectors as wide as those of the instruction set; the compiler would keep sums of wider vectors in
// memory. With vectors of 32 bytes these are 12 sums, which leaves registers for b's vectors and an
// element of a. With vectors of 64 bytes and 32 registers, a tile has 12 rows by two panels: it
// reads half as much per product, and has enough independent sums to hide the latency of additions.
constexpr int kRows = 6;
constexpr int kPanelBytes = 64;
constexpr int kWideRows = 12, kWidePanels = 2;

template <class T, int bytes>
using Vector [[gnu::vector_size(bytes)]] = T;
template <class T>
constexpr int kColumns = kPanelBytes / sizeof(T);

template <class T>
struct Tile {
  const T* a;  // element (i, k) at a[i * row_step + k * k_step]
  int64_t row_step, k_step, k;
  const T* panel;  // [panels][k][kColumns], b's columns packed
  T* sums;         // [rows][panels][kColumns]
};

template <class T, int bytes, int rows, int panels = 1>
[[gnu::always_inline]] inline void MultiplyTile(const Tile<T>& tile) {
  constexpr int kInPanel = kPanelBytes / bytes, kVectors = panels * kInPanel;
  constexpr int kLanes = bytes / sizeof(T);
  Vector<T, bytes> sums[rows][kVectors] = {};
  for (int64_t k = 0; k < tile.k; ++k) {
    Vector<T, bytes> b[kVectors];
    // Without unrolling the compiler would keep the sums in memory.
#pragma GCC unroll 12
    for (int j = 0; j < kVectors; ++j) {
      const T* row = tile.panel + (j / kInPanel * tile.k + k) * kColumns<T>;
      std::memcpy(&b[j], row + j % kInPanel * kLanes, sizeof(b[j]));
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) {
      const T a = tile.a[i * tile.row_step + k * tile.k_step];
#pragma GCC unroll 12
      for (int j = 0; j < kVectors; ++j) sums[i][j] += a * b[j];
    }
  }
  std::memcpy(tile.sums, sums, sizeof(sums));
}

template <class T, int bytes>
[[gnu::always_inline]] inline void MultiplyAnyTile(const Tile<T>& tile, int rows) {
  switch (rows) {
    case 1:
      return MultiplyTile<T, bytes, 1>(tile);
    case 2:
      return MultiplyTile<T, bytes, 2>(tile);
    case 3:
      return MultiplyTile<T, bytes, 3>(tile);
    case 4:
      return MultiplyTile<T, bytes, 4>(tile);
    case 5:
      return MultiplyTile<T, bytes, 5>(tile);
    default:
      return MultiplyTile<T, bytes, kRows>(tile);
  }
}

// The same code is compiled for three instruction sets, and chosen at run time, so that the library
// runs on any machine.
template <class T>
void MultiplyBaseline(const Tile<T>& tile, int rows) {
  MultiplyAnyTile<T, 16>(tile, rows);
}
#if FUSEC_HOST_X86
template <class T>
[[gnu::target("avx2,fma")]] void MultiplyAvx2(const Tile<T>& tile, int rows) {
  MultiplyAnyTile<T, 32>(tile, rows);
}
template <class T>
[[gnu::target("avx512f,avx512dq,fma")]] void MultiplyAvx512(const Tile<T>& tile, int rows) {
  MultiplyAnyTile<T, 64>(tile, rows);
}
[[gnu::target("avx512f,avx512dq,fma")]] void MultiplyWideAvx512(const Tile<float>& tile) {
  MultiplyTile<float, 64, kWideRows, kWidePanels>(tile);
}
#endif

template <class T>
struct Kernel {
  void (*multiply)(const Tile<T>& tile, int rows);  // up to kRows rows by one panel
  void (*multiply_wide)(const Tile<T>& tile);       // kWideRows by kWidePanels, or null
};

template <class T>
Kernel<T> ChooseKernel() {
#if FUSEC_HOST_X86
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    if constexpr (std::is_same_v<T, float>) return {MultiplyAvx512<T>, MultiplyWideAvx512};
    return {MultiplyAvx512<T>, nullptr};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {MultiplyAvx2<T>, nullptr};
#endif
  return {MultiplyBaseline<T>, nullptr};
}

template <class T>
T Activate(Activation activation, T x) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (activation) {
      case Activation::kNone:
        return x;
      case Activation::kRelu:
        return x < 0 ? T(0) : x;  // keeps NaN
      case Activation::kGeluTanh:
        // x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
        return x / 2 * (1 + std::tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x)));
      case Activation::kGeluErf:
        return x / 2 * (1 + std::erf(x * T(0.7071067811865476)));
      case Activation::kSigmoid:
        return 1 / (1 + std::exp(-x));
      case Activation::kTanh:
        return std::tanh(x);
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

// The sums of a panel, whose rows are `pitch` elements apart, and the operands of the epilogue:
// `bias` is that of the first column, `place` the place of the first element in d and in the
// addend; both may be null.
template <class T>
struct Sums {
  const T* sums;
  int64_t pitch;
  int rows;
  int64_t place;
  T* d;
  const T *bias, *addend;
};

template <class T>
[[gnu::always_inline]] inline void StoreColumns(const HostMatmul& call, const Sums<T>& tile,
                                                int64_t columns) {
  for (int i = 0; i < tile.rows; ++i) {
    const int64_t place = tile.place + i * call.sizes.n;
    T row[kColumns<T>];
    for (int64_t j = 0; j < columns; ++j) row[j] = tile.sums[i * tile.pitch + j];
    for (int64_t j = 0; tile.bias && j < columns; ++j) row[j] += tile.bias[j];
    for (int64_t j = 0; tile.addend && j < columns; ++j) row[j] += tile.addend[place + j];
    if (call.activation == Activation::kRelu) {  // a separate loop for the most frequent activation
      for (int64_t j = 0; j < columns; ++j) row[j] = Activate(Activation::kRelu, row[j]);
    } else if (call.activation != Activation::kNone) {
      for (int64_t j = 0; j < columns; ++j) row[j] = Activate(call.activation, row[j]);
    }
    for (int64_t j = 0; j < columns; ++j) tile.d[place + j] = row[j];
  }
}

template <class T>
void Store(const HostMatmul& call, const Sums<T>& tile, int64_t columns) {
  if (columns == kColumns<T>)
    StoreColumns(call, tile, kColumns<T>);  // a constant, so that loops are vectorized
  else
    StoreColumns(call, tile, columns);
}

// The work is divided into items of one matrix of the batch, one or two panels of columns, and a
// chunk of rows.
template <class T>
void Multiply(const HostMatmul& call, int threads) {
  const MatmulSizes& s = call.sizes;
  const Kernel<T> kernel = ChooseKernel<T>();
  const bool is_wide = kernel.multiply_wide && s.m >= kWideRows && s.n > kColumns<T>;
  const int64_t task_columns = kColumns<T> * (is_wide ? kWidePanels : 1);
  const int64_t parts = (s.n + task_columns - 1) / task_columns;
  // Rows are divided only if the columns alone would leave threads without work, because each chunk
  // packs its panels again.
  const int64_t wanted_chunks = (2 * threads + parts * s.batch - 1) / (parts * s.batch);
  const int64_t chunks = threads > 1 ? std::clamp<int64_t>(wanted_chunks, 1, (s.m + 63) / 64) : 1;
  const int64_t chunk_rows = (s.m + chunks - 1) / chunks;
  const T* packed = nullptr;
  if constexpr (std::is_same_v<T, float>) packed = call.panels;
  const auto work = [&](int64_t first, int64_t last) {
    std::vector<T> own_panels(packed ? 0 : s.k * task_columns);
    T sums[kWideRows * kWidePanels * kColumns<T>];
    for (int64_t task = first; task < last; ++task) {
      const int64_t chunk = task % chunks;
      const int64_t column = task / chunks % parts * task_columns;
      const int64_t matrix = task / chunks / parts;
      const T* a = static_cast<const T*>(call.a) + matrix * s.a_stride;
      const T* b = static_cast<const T*>(call.b) + matrix * s.b_stride;
      T* d = static_cast<T*>(call.d) + matrix * s.d_stride;
      const T* bias = static_cast<const T*>(call.bias);
      const T* addend = static_cast<const T*>(call.addend);
      if (addend) addend += matrix * s.d_stride;
      const int64_t end_column = std::min(s.n, column + task_columns);
      const int64_t end_row = std::min(s.m, (chunk + 1) * chunk_rows);
      for (int64_t at = column; !packed && at < end_column; at += kColumns<T>)
        PackPanel(call, b, at, &own_panels[(at - column) * s.k]);
      const T* panels = packed ? packed + column * s.k : own_panels.data();
      const int64_t row_step = call.transpose_a ? 1 : s.k, k_step = call.transpose_a ? s.m : 1;
      const bool has_all_panels = is_wide && end_column - column > kColumns<T> * (kWidePanels - 1);
      for (int64_t row = chunk * chunk_rows; row < end_row;) {
        const bool takes_wide = has_all_panels && end_row - row >= kWideRows;
        const int rows =
            takes_wide ? kWideRows : static_cast<int>(std::min<int64_t>(kRows, end_row - row));
        const auto tile_at = [&](int64_t at) {
          const T* panel = panels + (at - column) * s.k;
          return Tile<T>{a + row * row_step, row_step, k_step, s.k, panel, sums};
        };
        if (takes_wide) kernel.multiply_wide(tile_at(column));
        for (int64_t at = column; at < end_column; at += kColumns<T>) {
          if (!takes_wide) kernel.multiply(tile_at(at), rows);
          const T* bias_here = bias ? bias + at : nullptr;
          const int64_t place = row * s.n + at;
          const T* sums_here = takes_wide ? sums + (at - column) : sums;
          const int64_t pitch = takes_wide ? task_columns : kColumns<T>;
          Store<T>(call, {sums_here, pitch, rows, place, d, bias_here, addend},
                   std::min<int64_t>(kColumns<T>, end_column - at));
        }
        row += rows;
      }
    }
  };
  ParallelFor(threads, s.batch * parts * chunks, work);
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
  if (!PlainMatmulHas(call.dtype) || call.has_short_factors) return false;
  const bool is_float = call.dtype == FUSEC_F32 || call.dtype == FUSEC_F64;
  if (!is_float && call.activation != Activation::kNone) return false;
  if (call.sizes.IsEmpty()) return true;
  switch (call.dtype) {
    case FUSEC_F32:
      Multiply<float>(call, threads);
      break;
    case FUSEC_F64:
      Multiply<double>(call, threads);
      break;
    // Wrapping arithmetic gives the same bits for signed and unsigned numbers.
    case FUSEC_I32:
    case FUSEC_U32:
      Multiply<uint32_t>(call, threads);
      break;
    default:
      Multiply<uint64_t>(call, threads);
      break;
  }
  return true;
}

}  // namespace fusec::runtime
