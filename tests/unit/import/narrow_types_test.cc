// Values of 2 to 8 bits inside a model, beside a search of all numbers of their type.
#include "compiler/import/narrow_types.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/import/import_fixture.h"

namespace fusec {
namespace {

// The numbers of ONNX's types (TensorProto.DataType).
enum Type {
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kUint2 = 25,
  kInt2 = 26
};

using Special = NarrowType::Layout::Special;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// All numbers of a type of at most 8 bits, by code.
std::vector<double> NumbersOf(int data_type) {
  const int bits = NarrowTypeFromOnnx(data_type)->bits;
  std::vector<double> numbers;
  for (int code = 0; code < 1 << bits; ++code) {
    const std::byte packed{static_cast<unsigned char>(code)};
    numbers.push_back(Unpacked(data_type, {1}, {&packed, 1}).GetDouble(0));
  }
  return numbers;
}

// The nearest finite number; of two, the one with an even code.
double Nearest(const std::vector<double>& numbers, double x) {
  int best = 0;
  for (int code = 0; code < static_cast<int>(numbers.size()); ++code) {
    if (!std::isfinite(numbers[code])) continue;
    const double nearer = std::abs(numbers[best] - x) - std::abs(numbers[code] - x);
    if (nearer > 0 || (nearer == 0 && code % 2 == 0)) best = code;
  }
  return numbers[best];
}

double Rounded(int data_type, double x, bool saturates) {
  if (std::isnan(x)) return x;
  const NarrowType::Layout layout = *NarrowTypeFromOnnx(data_type)->layout;
  const std::vector<double> numbers = NumbersOf(data_type);
  const double greatest = layout.Greatest();
  if (saturates) return Nearest(numbers, std::clamp(x, -greatest, greatest));
  // With the next number, as if the exponent had no end.
  const double step = std::ldexp(1.0, std::ilogb(greatest) - layout.mantissa);
  const double beyond = greatest + step;
  if (std::abs(x) < (greatest + beyond) / 2) return Nearest(numbers, x);
  const bool is_tie = std::abs(x) == (greatest + beyond) / 2;
  if (is_tie && std::fmod(greatest / step, 2) == 0) return std::copysign(greatest, x);
  if (layout.special == Special::kInfinities) return std::copysign(kInfinity, x);
  return std::numeric_limits<double>::quiet_NaN();
}

// Numbers of the type, what lies between them, and what lies beyond.
std::vector<double> Samples(int data_type) {
  std::vector<double> numbers = NumbersOf(data_type);
  std::erase_if(numbers, [](double x) { return !std::isfinite(x); });
  std::sort(numbers.begin(), numbers.end());
  std::vector<double> samples = numbers;
  for (size_t i = 1; i < numbers.size(); ++i) {
    const float middle = static_cast<float>((numbers[i - 1] + numbers[i]) / 2);
    for (const float x : {std::nextafter(middle, -1e30f), middle, std::nextafter(middle, 1e30f)})
      samples.push_back(x);
  }
  const double greatest = numbers.back();
  for (const double x : {greatest * 1.01, greatest * 1.05, greatest * 1.1, greatest * 2, 1e30,
                         kInfinity, 1e-30, 1e-40, std::numeric_limits<double>::quiet_NaN()}) {
    samples.push_back(static_cast<float>(x));
    samples.push_back(static_cast<float>(-x));
  }
  return samples;
}

class NarrowTypes : public Import {
 protected:
  // Runs nodes that compute y from x.
  std::vector<double> Run(const std::string& nodes, const std::vector<double>& x) {
    const auto model = Load("g (float[n] x) => (float[n] y) {" + nodes + "}", {},
                            "ir_version: 10, opset_import: [\"\": 23]");
    EXPECT_TRUE(model) << ErrorOf(model);
    if (!model) return {};
    return Answer(*model->graph, {F32({static_cast<int64_t>(x.size())}, x)});
  }
};

TEST_F(NarrowTypes, CastsRoundToTheNearest) {
  for (const int type : {kFloat8E4M3FN, kFloat8E4M3FNUZ, kFloat8E5M2, kFloat8E5M2FNUZ}) {
    const std::vector<double> samples = Samples(type);
    for (const bool saturates : {true, false}) {
      const std::vector<double> found =
          Run("c = Cast<to: int = " + std::to_string(type) +
                  ", saturate: int = " + std::to_string(saturates) + ">(x) y = Cast<to = 1>(c)",
              samples);
      ASSERT_EQ(found.size(), samples.size());
      for (size_t i = 0; i < samples.size(); ++i) {
        const double expected = Rounded(type, samples[i], saturates);
        if (std::isnan(expected) && std::isnan(found[i])) continue;
        EXPECT_EQ(found[i], expected) << samples[i] << " to type " << type << ", " << saturates;
      }
    }
  }
}

TEST_F(NarrowTypes, FloatsOfFourBitsAlwaysSaturate) {
  const int type = kFloat4E2M1;
  std::vector<double> samples = Samples(type);
  std::erase_if(samples, [](double x) { return std::isnan(x); });
  const std::vector<double> found = Run("c = Cast<to = 23>(x) y = Cast<to = 1>(c)", samples);
  ASSERT_EQ(found.size(), samples.size());
  for (size_t i = 0; i < samples.size(); ++i)
    EXPECT_EQ(found[i], Rounded(type, samples[i], true)) << samples[i];
}

TEST_F(NarrowTypes, QuantizedIntegersSaturateAtTheirOwnRange) {
  const std::vector<double> x = {-1000, -9, -8, -3, -2, -1, 0, 1.5, 2.5, 3, 7, 8, 15, 16, 1000};
  for (const int type : {kInt4, kUint4, kInt2, kUint2}) {
    const NarrowType narrow = *NarrowTypeFromOnnx(type);
    const std::string one = "one = Constant<value_float: float = 1.0>() ";
    const std::vector<double> found =
        Run(one + "c = QuantizeLinear<output_dtype: int = " + std::to_string(type) +
                ">(x, one) y = DequantizeLinear(c, one)",
            x);
    ASSERT_EQ(found.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(found[i],
                std::clamp(std::nearbyint(x[i]), static_cast<double>(narrow.LeastInteger()),
                           static_cast<double>(narrow.GreatestInteger())))
          << x[i] << " to type " << type;
    }
  }
}

TEST_F(NarrowTypes, CastsToIntegersWrap) {
  EXPECT_EQ(Run("c = Cast<to = 22>(x) y = Cast<to = 1>(c)", {-9.7, -8, -1, 7.9, 8, 17}),
            (std::vector<double>{7, -8, -1, 7, -8, 1}));
  EXPECT_EQ(Run("c = Cast<to = 21>(x) y = Cast<to = 1>(c)", {-1, 15, 16, 17}),
            (std::vector<double>{15, 15, 0, 1}));
}

TEST_F(NarrowTypes, OpsThatMoveElementsKeepTheType) {
  // The zero point of the second op is four bits wide because the first one's result is.
  EXPECT_EQ(
      Run("one = Constant<value_float: float = 1.0>() first = Constant<value_ints: ints = [0]>() "
          "c = QuantizeLinear<output_dtype: int = 22>(x, one) r = Gather(c, first) "
          "e = Constant<value_ints: ints = [1]>() z = Reshape(r, e) "
          "like = CastLike(x, z) y = Cast<to = 1>(like)",
          {3, 9, 17, -9}),
      (std::vector<double>{3, -7, 1, 7}));
}

TEST_F(NarrowTypes, WhatIsMissingIsNamed) {
  EXPECT_EQ(ErrorOf(Load("g (float[n] x) => (float8e4m3fn[n] y) { y = Cast<to = 17>(x) }")),
            "m.onnxtxt: output \"y\" has element type float8e4m3fn, which fusec does not support");
  EXPECT_EQ(
      ErrorOf(Load("g (float[n] x) => (float[n] y) { c = Cast<to = 24>(x) y = Cast<to = 1>(c) }",
                   {}, "ir_version: 12, opset_import: [\"\": 24]")),
      "m.onnxtxt: node producing \"c\" (Cast): fusec does not cast to powers of two "
      "(float8e8m0)");
}

}  // namespace
}  // namespace fusec
