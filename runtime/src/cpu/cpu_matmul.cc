#include "runtime/src/cpu/cpu_matmul.h"

#include <algorithm>
#include <cstring>

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/half.h"
#include "runtime/src/parallel.h"

namespace fusec::runtime {
namespace {

constexpr size_t kShapesPerStep = 16;
// Where oneDNN multiplies weights as they lie in memory, which it does without AVX-512, panels that
// were packed once are faster up to this many rows: on two cores with AVX2 they take 0.36 times as
// long for 4 rows of BERT-base, 0.58 for 16, 0.74 for 128 and 0.91 for 384; 1.02 for 512 (0.78 to
// 0.95 in lora_mlp_1k, lecture_main and dcnv2), and 1.1 to 1.2 for 768.
constexpr int64_t kMostRowsByPanels = 512;

bool IsHalf(fusec_dtype dtype) { return dtype == FUSEC_F16 || dtype == FUSEC_BF16; }

std::span<const uint16_t> Halves(const void* data, int64_t count) {
  return {static_cast<const uint16_t*>(data), static_cast<size_t>(count)};
}

// Whether b is one constant matrix of f32, which the runtime's own product packs once.
bool HasPanels(const CpuMatmulCall& call) {
  const MatmulSizes& s = call.matmul.sizes;
  return call.matmul.dtype == FUSEC_F32 && !call.constant_b.empty() && s.k > 0 &&
         (s.batch == 1 || s.b_stride == 0);
}

// Whether panels are faster than a library that reads the weights as they lie.
bool IsForPanels(const CpuMatmulCall& call) {
  return HasPanels(call) && call.matmul.sizes.m <= kMostRowsByPanels &&
         call.matmul.activation == Activation::kNone;
}

// The number of elements from the first of the first matrix to the last of the last one.
int64_t Extent(int64_t batch, int64_t stride, int64_t matrix) {
  return (batch - 1) * stride + matrix;
}

// If the matrices a and d of a batch are contiguous and share b, makes them one matrix with more
// rows.
void FoldBatch(HostMatmul& call) {
  MatmulSizes& s = call.sizes;
  const bool folds = s.batch > 1 && s.b_stride == 0 && !call.transpose_a &&
                     s.a_stride == s.m * s.k && s.d_stride == s.m * s.n;
  if (!folds) return;
  s.m *= s.batch;
  s.batch = 1;
}

// ReLU on the bits of f32 or bf16: negative floats are negative integers.
template <class Int>
void ReluRow(Int* row, int64_t count) {
  using Vector [[gnu::vector_size(16)]] = Int;
  constexpr int64_t kLanes = 16 / sizeof(Int);
  // The bits of -infinity. The negative floats from -0 to -infinity are the integers from the
  // smallest one to this; negative NaNs are larger.
  constexpr Int kMinusInfinity = static_cast<Int>(sizeof(Int) == 4 ? 0xff800000 : 0xff80);
  const auto relu = [](auto x) { return (x <= kMinusInfinity) ? decltype(x){} : x; };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Vector x;
    std::memcpy(&x, row + i, sizeof(x));
    x = relu(x);
    std::memcpy(row + i, &x, sizeof(x));
  }
  for (; i < count; ++i) row[i] = relu(row[i]);
}

// Computes max(d, 0) in place; NaN stays NaN.
void ApplyRelu(const HostMatmul& call, int threads) {
  const MatmulSizes& s = call.sizes;
  ParallelFor(threads, s.batch * s.m, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t at = row / s.m * s.d_stride + row % s.m * s.n;
      if (call.dtype == FUSEC_F32) ReluRow(static_cast<int32_t*>(call.d) + at, s.n);
      else ReluRow(static_cast<int16_t*>(call.d) + at, s.n);
    }
  });
}

}  // namespace

const float* CpuMatmulWeights::Widened(fusec_dtype dtype, std::span<const std::byte> constant) {
  const std::lock_guard lock(mutex_);
  std::vector<float>& values = widened_[constant.data()];
  if (values.empty()) {
    values.resize(constant.size() / 2);
    WidenToFloat(dtype, Halves(constant.data(), values.size()), values.data());
  }
  return values.data();
}

CpuMatmulWeights::Short CpuMatmulWeights::Widen(const HostMatmul& call) {
  const int64_t n = call.sizes.n, k = call.sizes.k;
  Short weights;
  weights.values.resize(k * n);
  weights.sums.resize(n);
  const auto* b = static_cast<const int8_t*>(call.b);
  for (int64_t row = 0; row < k; ++row) {
    for (int64_t i = 0; i < n; ++i) {
      const int8_t weight = call.transpose_b ? b[i * k + row] : b[row * n + i];
      weights.values[row * n + i] = weight;
      weights.sums[i] += weight;
    }
  }
  return weights;
}

const CpuMatmulWeights::Short& CpuMatmulWeights::ShortWeights(const HostMatmul& call) {
  const std::lock_guard lock(mutex_);
  Short& weights = short_[{call.b, call.transpose_b, call.sizes.n, call.sizes.k}];
  if (weights.sums.empty()) weights = Widen(call);
  return weights;
}

const float* CpuMatmulWeights::Panels(const HostMatmul& call) {
  const std::lock_guard lock(mutex_);
  std::vector<float>& panels = panels_[{call.b, call.transpose_b, call.sizes.n, call.sizes.k}];
  if (panels.empty()) panels = PackPanels(call);
  return panels.data();
}

const OneDnnMatmul* CpuMatmul::Prepare(int step, const CpuMatmulCall& call, int threads) {
  std::vector<Prepared>& known = prepared_[step];
  const void* constant_b = call.constant_b.data();
  auto found = std::find_if(known.begin(), known.end(), [&](const Prepared& p) {
    return p.dtype == call.matmul.dtype && p.has_short_factors == call.matmul.has_short_factors &&
           p.threads == threads && p.sizes == call.matmul.sizes && p.constant_b == constant_b;
  });
  if (found == known.end()) {
    if (known.size() >= kShapesPerStep) {
      known.erase(std::min_element(known.begin(), known.end(), [](const auto& a, const auto& b) {
        return a.last_use < b.last_use;
      }));
    }
    Prepared& made = known.emplace_back();
    made.dtype = call.matmul.dtype;
    made.has_short_factors = call.matmul.has_short_factors;
    made.threads = threads;
    made.sizes = call.matmul.sizes;
    made.constant_b = constant_b;
    PackedWeights* const weights = constant_b ? &weights_.packed() : nullptr;
    made.primitive = OneDnnMatmul::Create(*library_, call.matmul, weights, IsForPanels(call));
    found = known.end() - 1;
  }
  found->last_use = ++uses_;
  return found->primitive.get();
}

// Computes a product of f16 or bf16 operands in f32 and rounds once at the end.
bool CpuMatmul::RunWidened(int step, const CpuMatmulCall& call, int threads) {
  const HostMatmul& narrow = call.matmul;
  const MatmulSizes& s = narrow.sizes;
  CpuMatmulCall wide = call;
  wide.matmul.dtype = FUSEC_F32;
  const auto widen = [&](const void* from, int64_t count, std::vector<float>& to) {
    to.resize(std::max<size_t>(to.size(), count));
    ParallelFor(threads, count, [&](int64_t first, int64_t last) {
      WidenToFloat(narrow.dtype, Halves(from, count).subspan(first, last - first), &to[first]);
    });
    return to.data();
  };
  if (s.k > 0) {
    wide.matmul.a = widen(narrow.a, Extent(s.batch, s.a_stride, s.m * s.k), wide_a_);
    if (call.constant_b.empty()) {
      wide.matmul.b = widen(narrow.b, Extent(s.batch, s.b_stride, s.k * s.n), wide_b_);
    } else {
      const auto* base = reinterpret_cast<const uint16_t*>(call.constant_b.data());
      const float* values = weights_.Widened(narrow.dtype, call.constant_b);
      wide.matmul.b = values + (static_cast<const uint16_t*>(narrow.b) - base);
      wide.constant_b = std::as_bytes(std::span(values, call.constant_b.size() / 2));
    }
  }
  if (narrow.bias) wide.matmul.bias = widen(narrow.bias, s.n, wide_bias_);
  if (narrow.addend) {
    wide_addend_.resize(std::max<size_t>(wide_addend_.size(), s.batch * s.m * s.n));
    for (int64_t matrix = 0; matrix < s.batch; ++matrix) {
      const auto* from = static_cast<const uint16_t*>(narrow.addend) + matrix * s.d_stride;
      WidenToFloat(narrow.dtype, Halves(from, s.m * s.n), &wide_addend_[matrix * s.m * s.n]);
    }
    wide.matmul.addend = wide_addend_.data();
  }
  // The f32 result is dense whatever the stride of d is, so that gaps between its matrices are not
  // written.
  wide.matmul.sizes.d_stride = s.m * s.n;
  const int64_t results = s.batch * s.m * s.n;
  wide_d_.resize(std::max<size_t>(wide_d_.size(), results));
  wide.matmul.d = wide_d_.data();
  if (!Run(step, wide, threads)) return false;
  ParallelFor(threads, s.batch * s.m, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      auto* to = static_cast<uint16_t*>(narrow.d) + row / s.m * s.d_stride + row % s.m * s.n;
      NarrowFromFloat(narrow.dtype, {&wide_d_[row * s.n], static_cast<size_t>(s.n)}, to);
    }
  });
  return true;
}

// Computes products of 8-bit integers in f32, in parts of the depth whose sums are exact. 128 is
// taken from a, and added to the result with the sums of b's columns, so that parts are long.
// Artifacts have such products of constant weights only, and nothing is fused with them.
bool CpuMatmul::RunShort(int step, const CpuMatmulCall& call, int threads) {
  constexpr int64_t kMostTerms = (1 << 24) / (128 * 128);  // whose sum f32 represents
  const MatmulSizes& s = call.matmul.sizes;
  if (call.matmul.bias || call.matmul.addend || call.matmul.activation != Activation::kNone)
    return false;
  const bool is_constant = !call.constant_b.empty();
  CpuMatmulWeights::Short own;  // of a matrix that is not constant
  const int64_t parts = std::max<int64_t>(1, (s.k + kMostTerms - 1) / kMostTerms);
  wide_d_.resize(std::max<size_t>(wide_d_.size(), s.m * s.n));
  for (int64_t i = 0; i < s.batch * parts; ++i) {
    const int64_t matrix = i / parts, part = i % parts;
    const int64_t first = s.k * part / parts, terms = s.k * (part + 1) / parts - first;
    HostMatmul one = call.matmul;
    one.b = static_cast<const int8_t*>(one.b) + matrix * s.b_stride;
    if (!is_constant && part == 0) own = CpuMatmulWeights::Widen(one);
    const CpuMatmulWeights::Short& weights = is_constant ? weights_.ShortWeights(one) : own;
    const auto* a = static_cast<const uint8_t*>(one.a) + matrix * s.a_stride;
    wide_a_.resize(std::max<size_t>(wide_a_.size(), s.m * terms));
    ParallelFor(threads, s.m, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        float* const to = &wide_a_[row * terms];
        const int64_t from = one.transpose_a ? first * s.m + row : row * s.k + first;
        const int64_t step = one.transpose_a ? s.m : 1;
        for (int64_t k = 0; k < terms; ++k) to[k] = static_cast<float>(a[from + k * step] - 128);
      }
    });
    CpuMatmulCall wide;
    const float* const values = weights.values.data() + first * s.n;
    wide.matmul.sizes = {.m = s.m, .n = s.n, .k = terms, .batch = 1};
    wide.matmul.sizes.d_stride = s.m * s.n;
    wide.matmul.a = wide_a_.data();
    wide.matmul.b = values;
    wide.matmul.d = wide_d_.data();
    if (is_constant) wide.constant_b = std::as_bytes(std::span(values, terms * s.n));
    if (!Run(step, wide, threads)) return false;
    ParallelFor(threads, s.m, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        auto* const d = static_cast<int32_t*>(one.d) + matrix * s.d_stride + row * s.n;
        const float* const from = &wide_d_[row * s.n];
        for (int64_t column = 0; column < s.n; ++column) {
          const int32_t before = part > 0 ? d[column] : 128 * weights.sums[column];
          d[column] = before + static_cast<int32_t>(from[column]);
        }
      }
    });
  }
  return true;
}

Status CpuMatmul::Run(int step, const CpuMatmulCall& call, int threads) {
  const fusec_dtype dtype = call.matmul.dtype;
  if (call.matmul.sizes.IsEmpty()) return {};
  CpuMatmulCall folded = call;
  FoldBatch(folded.matmul);
  SetOpenMpThreads(threads);
  const bool has_type =
      dtype == FUSEC_F32 || dtype == FUSEC_BF16 || call.matmul.has_short_factors;
  if (library_ && has_type && call.matmul.sizes.k > 0 && !call.matmul.addend) {
    const bool relu = folded.matmul.activation == Activation::kRelu;
    if (relu) folded.matmul.activation = Activation::kNone;
    const OneDnnMatmul* primitive = Prepare(step, folded, threads);
    if (primitive && primitive->Run(folded.matmul)) {
      if (relu) ApplyRelu(folded.matmul, threads);
      return {};
    }
    if (relu) folded.matmul.activation = Activation::kRelu;
  }
  if (HasPanels(folded)) folded.matmul.panels = weights_.Panels(folded.matmul);
  if (PlainMatmul(folded.matmul, threads)) return {};
  if (IsHalf(dtype) && RunWidened(step, folded, threads)) return {};
  if (call.matmul.has_short_factors && RunShort(step, folded, threads)) return {};
  return Fail(FUSEC_BAD_ARTIFACT, "no matmul of ", DtypeName(dtype), " on the CPU",
              call.matmul.activation == Activation::kNone ? "" : " with an activation");
}

}  // namespace fusec::runtime
