#include "tests/gpu/matmul_cases.h"

#include <cmath>
#include <cstring>

#include "runtime/src/artifact/dtype.h"
#include "runtime/src/artifact/half.h"
#include "runtime/src/status.h"
#include "tests/gpu/hand_made_artifact.h"
#include "tests/gpu/session.h"

namespace fusec::runtime {
namespace {

// An array of floating-point numbers as stored, and as doubles.
struct Values {
  std::vector<std::byte> bytes;
  std::vector<double> exact;
};

double LoadValue(fusec_dtype dtype, const std::byte* from) {
  uint16_t half = 0;
  float single = 0;
  double wide = 0;
  switch (dtype) {
    case FUSEC_F16:
      std::memcpy(&half, from, 2);
      return HalfToFloat(half);
    case FUSEC_BF16:
      std::memcpy(&half, from, 2);
      return BFloat16ToFloat(half);
    case FUSEC_F32:
      std::memcpy(&single, from, 4);
      return single;
    default:
      std::memcpy(&wide, from, 8);
      return wide;
  }
}

// Numbers between -1 and 1, rounded to the dtype.
Values RandomValues(fusec_dtype dtype, int64_t count, uint64_t seed) {
  Values values;
  const size_t size = static_cast<size_t>(DtypeBytes(dtype));
  values.bytes.resize(static_cast<size_t>(count) * size);
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const double value = static_cast<double>(seed >> 33) / 0x1p30 - 1;
    std::byte* to = values.bytes.data() + static_cast<size_t>(i) * size;
    const float single = static_cast<float>(value);
    const uint16_t half = dtype == FUSEC_F16 ? FloatToHalf(single) : FloatToBFloat16(single);
    if (dtype == FUSEC_F64)
      std::memcpy(to, &value, 8);
    else if (dtype == FUSEC_F32)
      std::memcpy(to, &single, 4);
    else
      std::memcpy(to, &half, 2);
    values.exact.push_back(LoadValue(dtype, to));
  }
  return values;
}

double Activate(const std::string& activation, double x) {
  if (activation == "relu") return x < 0 ? 0 : x;
  if (activation == "gelu_tanh")
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  if (activation == "gelu_erf") return x / 2 * (1 + std::erf(x / std::sqrt(2)));
  if (activation == "sigmoid") return 1 / (1 + std::exp(-x));
  if (activation == "tanh") return std::tanh(x);
  return x;
}

// The error of a product relative to the sum of the terms' magnitudes: from rounding the inputs to the precision, and from float sums.
double ProductTolerance(const MatmulCase& c) {
  if (c.dtype == FUSEC_F64) return 1e-14;
  if (c.dtype == FUSEC_F32 && c.precision == "high") return 0x1p-9;
  if (c.dtype == FUSEC_F32 && c.precision == "medium") return 0x1p-7;
  return 2e-6;
}

// The error of storing the result; the fallback for activations that cuBLASLt lacks stores twice.
double StoreTolerance(fusec_dtype dtype) {
  return dtype == FUSEC_F16    ? 0x1p-10
         : dtype == FUSEC_BF16 ? 0x1p-7
         : dtype == FUSEC_F32  ? 0x1p-22
                               : 0x1p-51;
}

struct Layout {
  int64_t a_stride, b_stride, d_stride, a_total, b_total, d_total;
};

Layout LayoutOf(const MatmulCase& c) {
  Layout layout;
  layout.a_stride = c.m * c.k + c.padding;
  layout.b_stride = c.shared_b ? 0 : c.k * c.n + c.padding;
  layout.d_stride = c.m * c.n + c.padding;
  layout.a_total = c.padding + c.batch * layout.a_stride;
  layout.b_total = c.padding + (c.shared_b ? c.k * c.n : c.batch * layout.b_stride);
  layout.d_total = c.padding + c.batch * layout.d_stride;
  return layout;
}

std::string Compare(const MatmulCase& c, const Layout& layout, const Values& a, const Values& b,
                    const Values& bias, const std::byte* found) {
  const int64_t size = DtypeBytes(c.dtype);
  for (int64_t i = 0; i < c.batch * c.m * c.n; ++i) {
    const int64_t matrix = i / (c.m * c.n), row = i / c.n % c.m, column = i % c.n;
    const int64_t in_bias = (c.own_biases ? matrix * c.n : 0) + column;
    const double added = c.has_bias ? bias.exact[static_cast<size_t>(in_bias)] : 0;
    double sum = added, magnitude = std::fabs(sum);
    for (int64_t k = 0; k < c.k; ++k) {
      const int64_t in_a = c.transpose_a ? k * c.m + row : row * c.k + k;
      const int64_t in_b = c.transpose_b ? column * c.k + k : k * c.n + column;
      const double term =
          a.exact[static_cast<size_t>(c.padding + matrix * layout.a_stride + in_a)] *
          b.exact[static_cast<size_t>(c.padding + matrix * layout.b_stride + in_b)];
      sum += term;
      magnitude += std::fabs(term);
    }
    const double expected = Activate(c.activation, sum);
    const int64_t place = c.padding + matrix * layout.d_stride + row * c.n + column;
    const double value = LoadValue(c.dtype, found + place * size);
    // Stored once as a bare product, too, where the bias is added by the fallback.
    const double product = sum - added;
    const double tolerance = 1.2 * ProductTolerance(c) * magnitude +
                             StoreTolerance(c.dtype) *
                                 (std::fabs(product) + std::fabs(sum) + std::fabs(expected) + 1e-3);
    if (!(std::fabs(value - expected) <= tolerance)) {
      return Text("d[", matrix, ", ", row, ", ", column, "] is ", std::to_string(value),
                  ", expected ", std::to_string(expected), " within ", std::to_string(tolerance));
    }
  }
  return "";
}

}  // namespace

std::vector<MatmulCase> MatmulCases() {
  std::vector<MatmulCase> cases;
  const auto add = [&](const std::string& name, const MatmulCase& c) {
    cases.push_back(c);
    const std::string precision = c.dtype == FUSEC_F32 ? " " + c.precision : "";
    cases.back().name = Text(name, " ", DtypeName(c.dtype), precision);
  };
  std::vector<MatmulCase> kinds(6);
  kinds[1].precision = "high";
  kinds[2].precision = "medium";
  kinds[3].dtype = FUSEC_F16;
  kinds[4].dtype = FUSEC_BF16;
  kinds[5].dtype = FUSEC_F64;
  for (const MatmulCase& kind : kinds) {
    MatmulCase c = kind;
    c.m = 33, c.n = 48, c.k = 129;
    add("plain", c);
    c.has_bias = true, c.activation = "relu";
    add("bias relu", c);
    c.m = 1, c.n = 256, c.k = 512;
    add("one row, bias relu", c);
    c.m = 7, c.n = 1, c.k = 367;
    add("one column, bias relu", c);
    c.activation = "gelu_tanh", c.n = 64;
    add("bias gelu_tanh", c);
    c.has_bias = false;
    add("gelu_tanh", c);
    c.has_bias = true, c.activation = "none", c.k = 0;
    add("empty k, bias", c);
    c = kind;
    c.batch = 3, c.m = 20, c.n = 24, c.k = 40;
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        c.transpose_a = ta, c.transpose_b = tb, c.padding = 0;
        add(Text("batched", ta ? " a^T" : "", tb ? " b^T" : ""), c);
        c.padding = 8;
        add(Text("batched with gaps", ta ? " a^T" : "", tb ? " b^T" : ""), c);
      }
    }
    c.transpose_a = false, c.padding = 0, c.shared_b = true, c.has_bias = true;
    add("batched, shared b^T, bias", c);
    c.padding = 1;  // operands at odd addresses
    add("batched with odd gaps, shared b^T, bias", c);
    c.padding = 0, c.shared_b = false, c.own_biases = true, c.activation = "relu";
    add("batched b^T, a bias for each, relu", c);
    c.shared_b = true, c.activation = "sigmoid";
    add("batched, shared b^T, a bias for each, sigmoid", c);
    c = kind;
    c.m = 65, c.n = 31, c.k = 77, c.has_bias = true;
    for (const char* activation : {"gelu_erf", "sigmoid", "tanh"}) {
      c.activation = activation;
      add(Text("odd sizes, bias ", activation), c);
    }
    c.activation = "none", c.has_bias = false, c.k = 0;
    add("empty k", c);
  }
  return cases;
}

std::string RunMatmulCase(const MatmulCase& c, const std::string& target) {
  const Layout layout = LayoutOf(c);
  const Values a = RandomValues(c.dtype, layout.a_total, 1);
  const Values b = RandomValues(c.dtype, layout.b_total, 2);
  const int64_t biases = c.own_biases ? c.batch * c.n : c.n;
  const Values bias = RandomValues(c.dtype, biases, 3);
  HandMadeArtifact artifact;
  artifact.Precision(c.precision);
  const auto text = [](int64_t value) { return std::to_string(value); };
  HandMadeArtifact::MatmulStep step;
  step.dtype = c.dtype;
  step.m = text(c.m), step.n = text(c.n), step.k = text(c.k), step.batch = text(c.batch);
  step.transpose_a = c.transpose_a, step.transpose_b = c.transpose_b;
  step.activation = c.activation;
  step.a = {artifact.Input("a", c.dtype, {text(layout.a_total)}), text(c.padding),
            text(layout.a_stride)};
  step.b = {artifact.Constant("b", c.dtype, layout.b_total, b.bytes.data()), text(c.padding),
            text(layout.b_stride)};
  if (c.has_bias) step.bias = artifact.Constant("bias", c.dtype, biases, bias.bytes.data());
  if (c.own_biases) step.bias_stride = text(c.n);
  step.d = {artifact.Output("d", c.dtype, {text(layout.d_total)}), text(c.padding),
            text(layout.d_stride)};
  artifact.Matmul(step);

  Session session(artifact.Write(target, true));
  session.Input(0, a.bytes.data(), {layout.a_total});
  session.Run();
  if (!session.ok()) return session.error();
  return Compare(c, layout, a, b, bias, session.Output(0));
}

}  // namespace fusec::runtime
