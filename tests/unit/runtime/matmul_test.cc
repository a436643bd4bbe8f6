#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/half.h"
#include "runtime/src/cpu/cpu_matmul.h"

namespace fusec::runtime {
namespace {

struct Case {
  fusec_dtype dtype = FUSEC_F32;
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false, bias = false, shared_b = false, constant_b = false;
  Activation activation = Activation::kNone;
  bool addend = false;
};

double Load(fusec_dtype dtype, const std::byte* from) {
  if (dtype == FUSEC_F64) return *reinterpret_cast<const double*>(from);
  if (dtype == FUSEC_F32) return *reinterpret_cast<const float*>(from);
  if (dtype == FUSEC_I32) return *reinterpret_cast<const int32_t*>(from);
  const uint16_t bits = *reinterpret_cast<const uint16_t*>(from);
  return dtype == FUSEC_F16 ? HalfToFloat(bits) : BFloat16ToFloat(bits);
}

void Store(fusec_dtype dtype, double value, std::byte* to) {
  const auto rounded = static_cast<float>(value);
  if (dtype == FUSEC_F64) *reinterpret_cast<double*>(to) = value;
  else if (dtype == FUSEC_F32) *reinterpret_cast<float*>(to) = rounded;
  else if (dtype == FUSEC_I32) *reinterpret_cast<int32_t*>(to) = static_cast<int32_t>(value);
  else if (dtype == FUSEC_F16) *reinterpret_cast<uint16_t*>(to) = FloatToHalf(rounded);
  else *reinterpret_cast<uint16_t*>(to) = FloatToBFloat16(rounded);
}

double Activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return x < 0 ? 0 : x;
    case Activation::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf: return x / 2 * (1 + std::erf(x / std::sqrt(2)));
    case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
    case Activation::kTanh: return std::tanh(x);
  }
  return 0;
}

// A case with its data, and the result of a naive product in double precision.
class Problem {
 public:
  explicit Problem(const Case& c) : c_(c), size_(DtypeBytes(c.dtype)) {
    std::mt19937 random(7);
    a_ = Random(random, c.batch * c.m * c.k);
    b_ = Random(random, (c.shared_b ? 1 : c.batch) * c.k * c.n);
    bias_ = Random(random, c.n);
    addend_ = Random(random, c.batch * c.m * c.n);
    d_.assign(static_cast<size_t>(c.batch * c.m * c.n * size_), std::byte{0xff});
    HostMatmul& matmul = call_.matmul;
    matmul.dtype = c.dtype;
    matmul.sizes = {c.m,      c.n, c.k, c.batch, 0, 0, 0, c.m * c.k, c.shared_b ? 0 : c.k * c.n,
                    c.m * c.n};
    matmul.transpose_a = c.transpose_a;
    matmul.transpose_b = c.transpose_b;
    matmul.activation = c.activation;
    matmul.a = a_.data();
    matmul.b = b_.data();
    matmul.bias = c.bias ? bias_.data() : nullptr;
    matmul.addend = c.addend ? addend_.data() : nullptr;
    matmul.d = d_.data();
    if (c.constant_b) call_.constant_b = b_;
  }

  CpuMatmulCall& call() { return call_; }
  double Result(int64_t i) const { return Load(c_.dtype, &d_[i * size_]); }
  void SetA(int64_t i, double value) { Store(c_.dtype, value, &a_[i * size_]); }

  // Rounding to the dtype, and k + 8 roundings of float sums of terms below 1.
  double Tolerance() const {
    const double unit = c_.dtype == FUSEC_F16 ? 0x1p-11 : c_.dtype == FUSEC_BF16 ? 0x1p-8 : 0;
    const double sum_unit = c_.dtype == FUSEC_F64 ? 0x1p-53 : c_.dtype == FUSEC_I32 ? 0 : 0x1p-24;
    return (unit + (c_.k + 8) * sum_unit) * (1 + c_.k / 4.0);
  }

  void CheckAgainstLoops() const {
    for (int64_t matrix = 0; matrix < c_.batch; ++matrix) {
      for (int64_t row = 0; row < c_.m; ++row) {
        for (int64_t column = 0; column < c_.n; ++column) {
          double sum = c_.bias ? Load(c_.dtype, &bias_[column * size_]) : 0;
          for (int64_t k = 0; k < c_.k; ++k) {
            const int64_t a =
                matrix * c_.m * c_.k + (c_.transpose_a ? k * c_.m + row : row * c_.k + k);
            const int64_t b = (c_.shared_b ? 0 : matrix * c_.k * c_.n) +
                              (c_.transpose_b ? column * c_.k + k : k * c_.n + column);
            sum += Load(c_.dtype, &a_[a * size_]) * Load(c_.dtype, &b_[b * size_]);
          }
          const int64_t at = (matrix * c_.m + row) * c_.n + column;
          if (c_.addend) sum += Load(c_.dtype, &addend_[at * size_]);
          ASSERT_NEAR(Result(at), Activated(c_.activation, sum), Tolerance())
              << matrix << " " << row << " " << column;
        }
      }
    }
  }

 private:
  std::vector<std::byte> Random(std::mt19937& random, int64_t count) const {
    std::vector<std::byte> values(static_cast<size_t>(count * size_));
    for (int64_t i = 0; i < count; ++i) {
      const double value = static_cast<double>(random() % 2001) / 1000 - 1;
      Store(c_.dtype, c_.dtype == FUSEC_I32 ? std::round(value * 100) : value, &values[i * size_]);
    }
    return values;
  }
  Case c_;
  int size_;
  std::vector<std::byte> a_, b_, bias_, addend_, d_;
  CpuMatmulCall call_;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const fusec_dtype dtype : {FUSEC_F32, FUSEC_F64, FUSEC_F16, FUSEC_BF16, FUSEC_I32}) {
    for (const auto& [m, n, k] :
         {std::tuple{1, 1, 1}, {1, 64, 13}, {7, 17, 5}, {33, 40, 100}, {3, 2, 0}}) {
      for (int bits = 0; bits < 16; ++bits) {
        Case c{dtype, bits % 3 + 1, m, n, k, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0,
               (bits & 8) != 0};
        c.constant_b = bits % 3 == 1;
        c.addend = bits % 5 == 2;
        if (dtype != FUSEC_I32) c.activation = static_cast<Activation>(bits % 6);
        cases.push_back(c);
      }
    }
  }
  return cases;
}

TEST(CpuMatmulTest, AgreesWithLoopsWithAndWithoutOneDnn) {
  for (const OneDnn* library : {static_cast<const OneDnn*>(nullptr), OneDnn::Get()}) {
    for (const Case& c : Cases()) {
      SCOPED_TRACE(testing::Message()
                   << DtypeName(c.dtype) << " " << c.batch << " x " << c.m << " x " << c.n << " x "
                   << c.k << " transposes " << c.transpose_a << c.transpose_b << " activation "
                   << static_cast<int>(c.activation) << " addend " << c.addend << " library " << (library != nullptr));
      CpuMatmulWeights weights;
      CpuMatmul matmul(library, weights);
      Problem problem(c);
      for (const int threads : {1, c.m > 30 ? 2 : 1}) {
        ASSERT_TRUE(matmul.Run(0, problem.call(), threads));
        problem.CheckAgainstLoops();
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(CpuMatmulTest, BothWaysKeepNanAndInfinity) {
  for (const OneDnn* library : {static_cast<const OneDnn*>(nullptr), OneDnn::Get()}) {
    for (const fusec_dtype dtype : {FUSEC_F32, FUSEC_BF16, FUSEC_F16}) {
      for (int activation = 0; activation <= 5; ++activation) {
        CpuMatmulWeights weights;
        CpuMatmul matmul(library, weights);
        Problem problem({dtype, 1, 3, 40, 4, false, false, false, false, false,
                         static_cast<Activation>(activation)});
        problem.SetA(0, std::numeric_limits<double>::quiet_NaN());
        problem.SetA(4, std::numeric_limits<double>::infinity());
        ASSERT_TRUE(matmul.Run(0, problem.call(), 1));
        for (int j = 0; j < 40; ++j) {
          EXPECT_TRUE(std::isnan(problem.Result(j)))
              << DtypeName(dtype) << " " << activation << " " << j;
          if (activation == 0) {
            EXPECT_FALSE(std::isfinite(problem.Result(40 + j)));
          }
          EXPECT_TRUE(std::isfinite(problem.Result(80 + j)));
        }
      }
    }
  }
}

TEST(CpuMatmulTest, IntegersWrap) {
  CpuMatmulWeights weights;
  CpuMatmul matmul(nullptr, weights);
  const std::vector<int32_t> a = {INT32_MAX, 2}, b = {2, 3};
  int32_t d = 0;
  CpuMatmulCall call;
  call.matmul = {FUSEC_I32, {1, 1, 2, 1}, false,   false,   Activation::kNone,
                 a.data(),  b.data(),     nullptr, nullptr, &d};
  ASSERT_TRUE(matmul.Run(0, call, 1));
  EXPECT_EQ(d, 4);  // 2 (2^31 - 1) + 6 = 2^32 + 4
}

TEST(CpuMatmulTest, ProductsOfShortIntegersAreExact) {
  // The extreme factors, and depths of one and of several parts whose sums f32 represents.
  constexpr int64_t kRows = 3, kColumns = 20;
  for (const OneDnn* library : {static_cast<const OneDnn*>(nullptr), OneDnn::Get()}) {
    for (const int64_t depth : {1, 40, 1024, 1025, 5000}) {
      const bool is_turned = depth % 2 == 0;  // both factors
      SCOPED_TRACE(testing::Message() << depth << " " << (library != nullptr));
      std::mt19937 random(7);
      std::vector<uint8_t> a(kRows * depth);
      std::vector<int8_t> b(depth * kColumns);
      for (uint8_t& code : a) code = random() % 4 == 0 ? 255 : random() % 2 == 0 ? 128 : random();
      for (int8_t& code : b) code = random() % 2 == 0 ? -128 : static_cast<int8_t>(random());
      std::vector<int32_t> d(kRows * kColumns, -1);
      CpuMatmulCall call;
      call.matmul.dtype = FUSEC_I32;
      call.matmul.has_short_factors = true;
      call.matmul.transpose_a = call.matmul.transpose_b = is_turned;
      call.matmul.sizes = {kRows, kColumns, depth, 1, 0, 0, 0, kRows * depth, depth * kColumns, kRows * kColumns};
      call.matmul.a = a.data();
      call.matmul.b = b.data();
      call.matmul.d = d.data();
      call.constant_b = std::as_bytes(std::span(b));
      CpuMatmulWeights weights;
      CpuMatmul matmul(library, weights);
      ASSERT_TRUE(matmul.Run(0, call, 2));
      for (int64_t i = 0; i < kRows * kColumns; ++i) {
        int32_t sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          const int64_t row = i / kColumns, column = i % kColumns;
          sum += is_turned ? a[k * kRows + row] * b[column * depth + k]
                           : a[row * depth + k] * b[k * kColumns + column];
        }
        ASSERT_EQ(d[i], sum) << i;
      }
    }
  }
}

TEST(CpuMatmulTest, RefusesWhatItLacks) {
  CpuMatmulWeights weights;
  CpuMatmul matmul(OneDnn::Get(), weights);
  Problem problem({FUSEC_F32, 1, 2, 2, 2});
  problem.call().matmul.dtype = FUSEC_I8;
  EXPECT_EQ(matmul.Run(0, problem.call(), 1).error().message, "no matmul of i8 on the CPU");
}

TEST(CpuMatmulTest, ForgetsOldShapes) {
  CpuMatmulWeights weights;
  CpuMatmul matmul(OneDnn::Get(), weights);
  for (int round = 0; round < 2; ++round) {
    for (int64_t m = 1; m < 40; ++m) {
      Problem problem({FUSEC_F32, 1, m, 5, 3});
      ASSERT_TRUE(matmul.Run(0, problem.call(), 1));
      problem.CheckAgainstLoops();
    }
  }
}

TEST(HalfTest, EveryHalfRoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float wide = HalfToFloat(half), brain = BFloat16ToFloat(half);
    if (std::isnan(wide)) { EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(wide)))); }
    else { EXPECT_EQ(FloatToHalf(wide), half); }
    if (std::isnan(brain)) { EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(brain)))); }
    else { EXPECT_EQ(FloatToBFloat16(brain), half); }
  }
}

TEST(HalfTest, RoundsToNearestEven) {
  EXPECT_EQ(FloatToHalf(1 + 0x1p-11f), 0x3c00);           // a tie goes to the even 1
  EXPECT_EQ(FloatToHalf(1 + 0x1p-11f + 0x1p-20f), 0x3c01);
  EXPECT_EQ(FloatToHalf(1 + 3 * 0x1p-11f), 0x3c02);
  EXPECT_EQ(FloatToHalf(65519.996f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(-0.0f), 0x8000);
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000);
  EXPECT_EQ(FloatToHalf(0x1.8p-25f), 0x0001);
  EXPECT_EQ(FloatToHalf(0x1.ffcp-15f), 0x0400);            // rounds up into the normal numbers
  EXPECT_EQ(FloatToBFloat16(1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace fusec::runtime
