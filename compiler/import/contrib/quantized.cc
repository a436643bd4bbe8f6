// Ops on quantized tensors: real = (code - zero point) * scale.
#include <fmt/format.h>

#include "compiler/import/contrib/contrib_attention.h"
#include "compiler/import/contrib/contrib_norms.h"
#include "compiler/import/contrib/contrib_ops.h"

namespace fusec {
namespace {

constexpr int64_t kMost = int64_t{1} << 24;  // no dim of weights is larger

// The product of integers as reals: multiplied by the scales of both factors.
std::string Scaled(Statements& s, const std::string& integers, const std::string& a_scale,
                   const std::string& b_scale) {
  const std::string scale = s.Of("Mul", a_scale, b_scale);
  const std::string real = s.Of("CastLike", integers, scale);
  return s.Of("Mul", real, scale);
}

Result<std::string> QGemm(const ContribNode& node) {
  Statements s;
  const std::string a = node.Int("transA") != 0 ? s.Transposed("A", 2) : "A";
  const std::string b = node.Int("transB") != 0 ? s.Transposed("B", 2) : "B";
  const std::string product = s.Of("MatMulInteger", a, b, "a_zero_point", "b_zero_point");
  const std::string sum = s.Plus(product, node, "C");  // C has the scale of the product
  std::string y = Scaled(s, sum, "a_scale", "b_scale");
  if (const double alpha = node.Float("alpha", 1); alpha != 1)
    y = s.Of("Mul", y, s.Number(alpha, y));
  if (node.Has("y_scale"))
    s.Set("Y", fmt::format("QuantizeLinear({}, y_scale, y_zero_point)", y));
  else
    s.Set("Y", fmt::format("Identity({})", y));
  return s.text();
}

Result<std::string> MatMulIntegerToFloat(const ContribNode& node) {
  Statements s;
  const std::string product = s.Of("MatMulInteger", "A", "B", "a_zero_point", "b_zero_point");
  const std::string real = Scaled(s, product, "a_scale", "b_scale");
  s.Set("Y", fmt::format("Identity({})", s.Plus(real, node, "bias")));
  return s.text();
}

Result<std::string> DynamicQuantizeMatMul(const ContribNode& node) {
  Statements s;
  s.Set("codes, scale, zero_point", "DynamicQuantizeLinear(A)");
  const std::string product = s.Of("MatMulInteger", "codes", "B", "zero_point", "b_zero_point");
  const std::string real = Scaled(s, product, "scale", "b_scale");
  s.Set("Y", fmt::format("Identity({})", s.Plus(real, node, "bias")));
  return s.text();
}

Result<std::string> QAttention(const ContribNode& node) {
  FUSEC_TRY(node.Refuse({}, {"do_rotary", "past_present_share_buffer"}));
  Statements s;
  const std::string product =
      s.Of("MatMulInteger", "input", "weight", "input_zero_point", "weight_zero_point");
  const std::string real = Scaled(s, product, "input_scale", "weight_scale");
  FUSEC_TRY(AttendTo(s, node, s.Of("Add", real, "bias"), "weight", nullptr));
  return s.text();
}

Result<std::string> QEmbedLayerNormalization(const ContribNode& node) {
  for (const char* name : {"word_embedding", "position_embedding", "gamma", "beta"}) {
    FUSEC_TRY(node.Require({fmt::format("{}_quant", name), fmt::format("{}_scale", name),
                            fmt::format("{}_zero_point", name)}));
  }
  if (node.Has("segment_ids")) {
    FUSEC_TRY(node.Require(
        {"segment_embedding", "segment_embedding_scale", "segment_embedding_zero_point"}));
  }
  Statements s;
  const auto real = [&](const std::string& name, const std::string& suffix) {
    return s.Let(fmt::format("DequantizeLinear({0}{1}, {0}_scale, {0}_zero_point)", name, suffix));
  };
  Embeddings embeddings{.output = "layernorm_out", .mask_index = "mask_index_out"};
  embeddings.word = real("word_embedding", "_quant");
  embeddings.position = real("position_embedding", "_quant");
  if (node.Has("segment_ids")) embeddings.segment = real("segment_embedding", "");
  embeddings.gamma = real("gamma", "_quant");
  embeddings.beta = real("beta", "_quant");
  EmbedAndNormalize(s, node, embeddings, /*has_position_ids=*/false);
  return s.text();
}

// An op on reals between codes: its inputs are dequantized, and its result is quantized.
Result<std::string> BetweenCodes(const ContribNode& node) {
  const std::string op = node.context().onnx_op().substr(std::string("QLinear").size());
  Statements s;
  if (op == "Add" || op == "Mul") {
    FUSEC_TRY(node.Require({"A", "A_scale", "B", "B_scale", "C_scale"}));
    s.Set("a", "DequantizeLinear(A, A_scale, A_zero_point)");
    s.Set("b", "DequantizeLinear(B, B_scale, B_zero_point)");
    s.Set("c", op + "(a, b)");
    s.Set("C", "QuantizeLinear<output_dtype = " +
                   std::string(node.Type("A").dtype == Dtype::kI8 ? "3" : "2") +
                   ">(c, C_scale, C_zero_point)");
    return s.text();
  }
  FUSEC_TRY(node.Require({"X", "X_scale", "Y_scale"}));
  s.Set("x", "DequantizeLinear(X, X_scale, X_zero_point)");
  std::string y;
  if (op == "Sigmoid") {
    y = s.Let("Sigmoid(x)");
  } else if (op == "LeakyRelu") {
    y = s.Let("LeakyRelu<alpha: float = @alpha>(x)");
  } else if (op == "Softmax") {
    const int rank = node.Rank("X");
    const int64_t axis = node.Int("axis", -1);
    if (node.Int("opset", 13) < 13 && axis != -1 && axis != rank - 1)
      return node.Fail("opset is less than 13 and axis not the last one, which is not supported");
    y = s.Let("Softmax<axis: int = @axis>(x)");
  } else if (op == "ReduceMean") {
    const std::string axes = s.Ints(node.context().Ints("axes"));
    y = s.Of("ReduceMean<keepdims: int = @keepdims>", "x", axes);
  } else if (op == "GlobalAveragePool") {
    FUSEC_TRY(node.Refuse({}, {"channels_last"}));
    y = s.Let("GlobalAveragePool(x)");
  } else {
    FUSEC_TRY(node.Refuse({}, {"channels_last"}));
    y = s.Let(
        "AveragePool<auto_pad: string = @auto_pad, ceil_mode: int = @ceil_mode, count_include_pad: "
        "int = @count_include_pad, kernel_shape: ints = @kernel_shape, pads: ints = @pads, "
        "strides: ints = @strides>(x)");
  }
  s.Set("Y", fmt::format("QuantizeLinear<output_dtype = {}>({}, Y_scale, Y_zero_point)",
                         node.Type("X").dtype == Dtype::kI8 ? 3 : 2, y));
  return s.text();
}

Result<std::string> QLinearConcat(const ContribNode& node) {
  Statements s;
  std::string parts;
  const int count = node.context().input_count();
  if (count % 3 != 2) return node.Fail("expected a tensor, a scale and a zero point per part");
  for (int i = 2; i < count; i += 3) {
    const std::string part = s.Let(fmt::format("DequantizeLinear(x{}, x{}, x{})", i - 2, i - 1, i));
    parts += (parts.empty() ? "" : ", ") + part;
  }
  const std::string real = s.Of("Concat<axis: int = @axis>", parts);
  s.Set("Y", fmt::format("QuantizeLinear({}, Y_scale, Y_zero_point)", real));
  return s.text();
}

// The least number of bytes that hold `count` codes of `bits` bits.
int64_t BytesOf(int64_t count, int64_t bits) { return CeilDiv(count * bits, 8); }

// The codes in bytes [.., bytes], the lowest bits first, as numbers of the dtype of `like`: [..,
// bytes * 8 / bits].
std::string CodesIn(Statements& s, const std::string& bytes, int64_t bits, const std::string& like,
                    int rank, const std::string& name) {
  std::string codes = bytes;
  if (bits < 8) {
    const std::string axis = s.Ints({-1});
    const auto number = [&](int64_t value) {
      return s.Let(fmt::format("Constant<value = uint8 {{{}}}>()", value));
    };
    std::string parts;
    for (int64_t low = 0; low < 8; low += bits) {
      std::string code = bytes;
      if (low > 0) code = s.Of("Div", code, number(1 << low));
      if (low + bits < 8) code = s.Of("BitwiseAnd", code, number((1 << bits) - 1));
      parts += (parts.empty() ? "" : ", ") + s.Of("Unsqueeze", code, axis);
    }
    const std::string apart = s.Of("Concat<axis = -1>", parts);
    std::vector<int64_t> joined(rank, 0);
    joined.back() = -1;
    codes = s.Of("Reshape", apart, s.Ints(joined));
  }
  return s.Let(fmt::format("CastLike({}, {})", codes, like), name);
}

std::string FirstColumns(Statements& s, const std::string& x, int64_t count,
                         const std::string& name) {
  const std::string begin = s.Ints({0}), end = s.Ints({count}), axis = s.Ints({1});
  return s.Let(fmt::format("Slice({}, {}, {}, {})", x, begin, end, axis), name);
}

// Weights [n, k] in blocks of `size` codes of `bits` bits: an input [n, blocks, bytes of a block].
struct Blocks {
  const char* input;
  int64_t n, k, bits, size;

  int64_t count() const { return CeilDiv(k, size); }
  int64_t bytes() const { return BytesOf(size, bits); }
  Result<void> Check(const ContribNode& node) const {
    if ((bits != 2 && bits != 4 && bits != 8) || size < 8 || size > kMost || n < 1 || n > kMost ||
        k < 1 || k > kMost) {
      return node.Fail(fmt::format(
          "bits is {}, block_size {}, N {} and K {}, expected 2, 4 or 8, 8 or more, and sizes",
          bits, size, n, k));
    }
    const TensorType& type = node.Type(input);
    if (!type.ElementCount().IsConstant(n * count() * bytes()) || type.dtype != Dtype::kU8) {
      return node.Fail(fmt::format("{} is {}, expected {}", input, type.ToString(),
                                   TensorType{Dtype::kU8, {n, count(), bytes()}}.ToString()));
    }
    return {};
  }
  // The codes [n, blocks, size], as numbers of the dtype of `like`.
  std::string Codes(Statements& s, const std::string& like, const std::string& name) const {
    return CodesIn(s, s.Of("Reshape", input, s.Ints({n, count(), bytes()})), bits, like, 3, name);
  }
  // The zero point of blocks to which none is given.
  std::string Zero(Statements& s, const std::string& like) const {
    return s.Number(static_cast<double>(int64_t{1} << (bits - 1)), like);
  }
};

// Weights [N, K] of 2, 4 or 8 bits: B [N, blocks, bytes of a block], with a scale and a zero point
// (2^(bits - 1) unless given) per block of K, or per group that g_idx [K] names.
Result<std::string> MatMulNBits(const ContribNode& node) {
  FUSEC_TRY(node.Refuse({}, {"weight_prepacked"}));
  const Blocks b = {"B", node.Int("N"), node.Int("K"), node.Int("bits", 4), node.Int("block_size")};
  FUSEC_TRY(b.Check(node));
  const int64_t n = b.n, k = b.k, bits = b.bits, blocks = b.count();
  Statements s;
  std::string codes = b.Codes(s, "scales", "codes");
  std::string scales = s.Of("Reshape", "scales", s.Ints({n, blocks}));
  std::string zeros;  // [N, blocks]
  if (node.Has("zero_points") && node.Type("zero_points").dtype == Dtype::kU8) {
    const std::string rows = s.Of("Reshape", "zero_points", s.Ints({n, BytesOf(blocks, bits)}));
    zeros = FirstColumns(s, CodesIn(s, rows, bits, "scales", 2, "zeros_and_rest"), blocks, "zeros");
  } else if (node.Has("zero_points")) {
    const std::string shape = s.Ints({n, blocks});
    zeros = s.Of("Reshape", s.Let("CastLike(zero_points, scales)"), shape);
  } else {
    zeros = b.Zero(s, "scales");
  }
  const std::string whole = s.Ints({n, -1});
  if (node.Has("g_idx")) {
    codes = FirstColumns(s, s.Of("Reshape", codes, whole), k, "codes_of_rows");
    scales = s.Of("Gather<axis = 1>", scales, "g_idx");
    if (node.Has("zero_points")) zeros = s.Of("Gather<axis = 1>", zeros, "g_idx");
  } else {
    const std::string axis = s.Ints({2});
    scales = s.Let(fmt::format("Unsqueeze({}, {})", scales, axis), "block_scales");
    if (node.Has("zero_points"))
      zeros = s.Let(fmt::format("Unsqueeze({}, {})", zeros, axis), "block_zeros");
  }
  std::string weights = s.Let(fmt::format("Sub({}, {})", codes, zeros), "centred");
  weights = s.Let(fmt::format("Mul({}, {})", weights, scales), "scaled");
  if (!node.Has("g_idx")) {
    weights = s.Let(fmt::format("Reshape({}, {})", weights, whole), "scaled_rows");
    weights = FirstColumns(s, weights, k, "dequantized");
  }
  weights = s.Let(fmt::format("CastLike({}, A)", weights), "weights");
  const std::string turned = s.Transposed(weights, 2);
  const std::string y = s.Let(fmt::format("MatMul(A, {})", turned), "product");
  s.Set("Y", fmt::format("Identity({})", s.Plus(y, node, "bias")));
  return s.text();
}

// Weights of 4 bits whose codes stand for numbers of -1 to 1: FP4 and NF4 of QLoRA (Dettmers et
// al., 2023; the numbers are those of bitsandbytes and onnxruntime).
constexpr const char* kFp4 =
    "0, 0.005208333333, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25, -0.0, -0.005208333333, "
    "-0.66666667, -1, -0.33333333, -0.5, -0.16666667, -0.25";
constexpr const char* kNf4 =
    "-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, "
    "-0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, "
    "0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, "
    "0.7229568362236023, 1";

// Weights in blocks of codes, as of MatMulNBits without zero points, turned: [k, n].
Result<std::string> Turned(const ContribNode& node, Statements& s, const Blocks& weights,
                           const char* scales) {
  FUSEC_TRY(weights.Check(node));
  const TensorType& type = node.Type(scales);
  if (!type.ElementCount().IsConstant(weights.n * weights.count())) {
    return node.Fail(fmt::format("{} is {}, expected {}", scales, type.ToString(),
                                 TensorType{type.dtype, {weights.n, weights.count()}}.ToString()));
  }
  const std::string name = weights.input;
  const std::string codes = weights.Codes(s, scales, name + "_codes");
  const std::string zero = weights.Zero(s, scales);
  const std::string of_blocks = s.Of("Reshape", scales, s.Ints({weights.n, weights.count(), 1}));
  const std::string scaled = s.Of("Mul", s.Of("Sub", codes, zero), of_blocks);
  const std::string rows = s.Of("Reshape", scaled, s.Ints({weights.n, -1}));
  const std::string whole = FirstColumns(s, rows, weights.k, name + "_rows");
  return s.Transposed(s.Let(fmt::format("CastLike({}, X)", whole)), 2);
}

// A product with an adapter (LoRA) beside it: X W + (X lora_A) lora_B. An adapter without elements
// is none.
Result<std::string> MatMulNBitsQLoRA(const ContribNode& node) {
  const int64_t n = node.Int("N"), k = node.Int("K"), lora_bits = node.Int("lora_bits", 8);
  const int64_t lora_size = node.Int("lora_block_size", 32);
  Statements s;
  FUSEC_ASSIGN(
      const std::string weights,
      Turned(node, s, {"W", n, k, node.Int("bits", 4), node.Int("block_size", 32)}, "scales"));
  const std::string y = s.Let(fmt::format("MatMul(X, {})", weights), "product");
  const bool has_adapter = !node.Type("lora_A").ElementCount().IsConstant(0) &&
                           !node.Type("lora_B").ElementCount().IsConstant(0);
  if (!has_adapter) {
    s.Set("Y", fmt::format("Identity({})", y));
    return s.text();
  }
  FUSEC_ASSIGN(const int64_t rank, node.FixedDim("lora_A", 0));
  FUSEC_ASSIGN(const std::string down,
               Turned(node, s, {"lora_A", rank, k, lora_bits, lora_size}, "lora_A_scales"));
  FUSEC_ASSIGN(const std::string up,
               Turned(node, s, {"lora_B", n, rank, lora_bits, lora_size}, "lora_B_scales"));
  const std::string low = s.Let(fmt::format("MatMul(X, {})", down), "low_rank");
  s.Set("Y", fmt::format("Add({}, {})", y, s.Let(fmt::format("MatMul({}, {})", low, up))));
  return s.text();
}

Result<std::string> MatMulBnb4(const ContribNode& node) {
  FUSEC_TRY(node.Refuse({}, {"training_mode"}));
  const int64_t n = node.Int("N"), k = node.Int("K"), size = node.Int("block_size");
  const int64_t type = node.Int("quant_type");
  if (node.Int("transB", 1) != 1) return node.Fail("transB is 0, which is not supported");
  if (n < 1 || n > kMost || k < 1 || k > kMost || size < 2 || size > kMost || (n * k) % 2 != 0 ||
      type < 0 || type > 1)
    return node.Fail("N, K, block_size or quant_type is out of range");
  if (!node.Type("B").ElementCount().IsConstant(n * k / 2)) {
    return node.Fail(
        fmt::format("B is {}, expected {} bytes", node.Type("B").ToString(), n * k / 2));
  }
  Statements s;
  const std::string column = s.Ints({-1, 1});
  const std::string bytes = s.Of("Reshape", "B", column);
  const std::string sixteen = s.Let("Constant<value = uint8 {16}>()");
  const std::string mask = s.Let("Constant<value = uint8 {15}>()");
  const std::string high = s.Of("Div", bytes, sixteen);
  const std::string low = s.Of("BitwiseAnd", bytes, mask);
  const std::string pairs = s.Of("Concat<axis = 1>", high, low);
  const std::string codes = s.Of("Cast<to = 6>", s.Of("Reshape", pairs, s.Ints({-1})));
  const std::string numbers =
      s.Let(fmt::format("Constant<value = float[16] {{{}}}>()", type == 0 ? kFp4 : kNf4));
  const std::string values = s.Of("Gather", numbers, codes);
  // The magnitude of each element's block.
  const int64_t blocks = CeilDiv(n * k, size);
  const std::string magnitudes =
      s.Of("Reshape", s.Let("Cast<to = 1>(absmax)"), s.Ints({blocks, 1}));
  const std::string repeated = s.Of("Expand", magnitudes, s.Ints({blocks, size}));
  const std::string flat = s.Of("Reshape", repeated, s.Ints({-1}));
  const std::string begin = s.Ints({0}), end = s.Ints({n * k});
  const std::string each = s.Of("Slice", flat, begin, end);
  const std::string product = s.Of("Mul", values, each);
  std::string weights = s.Of("CastLike", product, "A");
  weights = s.Of("Reshape", weights, s.Ints({n, k}));
  weights = s.Transposed(weights, 2);
  s.Set("Y", fmt::format("MatMul(A, {})", weights));
  return s.text();
}

Result<std::string> MulInteger(const ContribNode& node) {
  FUSEC_TRY(node.Require({"A", "B"}));
  Statements s;
  const auto centred = [&](const char* x, const char* zero_point) {
    const std::string wide = s.Of("Cast<to = 6>", x);
    if (!node.Has(zero_point)) return wide;
    return s.Of("Sub", wide, s.Of("Cast<to = 6>", zero_point));
  };
  const std::string a = centred("A", "A_zero_point"), b = centred("B", "B_zero_point");
  s.Set("C", fmt::format("Mul({}, {})", a, b));
  return s.text();
}

constexpr ContribOp kOps[] = {
    {"QuantizeLinear <axis: int = 1, block_size: int = 0> (x, y_scale, y_zero_point) => (y)", 2,
     "y = QuantizeLinear<axis: int = @axis, block_size: int = @block_size>(x, y_scale, "
     "y_zero_point)"},
    {"DequantizeLinear <axis: int = 1, block_size: int = 0> (x, x_scale, x_zero_point) => (y)", 2,
     "y = DequantizeLinear<axis: int = @axis, block_size: int = @block_size>(x, x_scale, "
     "x_zero_point)"},
    {"QGemm <alpha: float = 1.0, transA: int = 0, transB: int = 0> (A, a_scale, a_zero_point, B, "
     "b_scale, b_zero_point, C, y_scale, y_zero_point) => (Y)",
     6, nullptr, &QGemm},
    {"MatMulIntegerToFloat (A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias) => (Y)", 4,
     nullptr, &MatMulIntegerToFloat},
    {"DynamicQuantizeMatMul (A, B, b_scale, b_zero_point, bias) => (Y)", 3, nullptr,
     &DynamicQuantizeMatMul},
    {"QAttention <num_heads, unidirectional: int = 0, mask_filter_value, scale, do_rotary, "
     "past_present_share_buffer, qkv_hidden_sizes> (input, weight, bias, input_scale, "
     "weight_scale, mask_index, input_zero_point, weight_zero_point, past) => (output, present)",
     5, nullptr, &QAttention},
    {"QEmbedLayerNormalization <epsilon: float = 1e-12> (input_ids, segment_ids, "
     "word_embedding_quant, position_embedding_quant, segment_embedding, gamma_quant, beta_quant, "
     "mask, word_embedding_scale, position_embedding_scale, segment_embedding_scale, gamma_scale, "
     "beta_scale, word_embedding_zero_point, position_embedding_zero_point, "
     "segment_embedding_zero_point, gamma_zero_point, beta_zero_point) => (layernorm_out, "
     "mask_index_out)",
     1, nullptr, &QEmbedLayerNormalization},
    {"QLinearAdd (A, A_scale, A_zero_point, B, B_scale, B_zero_point, C_scale, C_zero_point) => "
     "(C)",
     2, nullptr, &BetweenCodes},
    {"QLinearMul (A, A_scale, A_zero_point, B, B_scale, B_zero_point, C_scale, C_zero_point) => "
     "(C)",
     2, nullptr, &BetweenCodes},
    {"QLinearSigmoid (X, X_scale, X_zero_point, Y_scale, Y_zero_point) => (Y)", 2, nullptr,
     &BetweenCodes},
    {"QLinearLeakyRelu <alpha: float = 0.01> (X, X_scale, X_zero_point, Y_scale, Y_zero_point) => "
     "(Y)",
     2, nullptr, &BetweenCodes},
    {"QLinearSoftmax <axis: int = -1, opset> (X, X_scale, X_zero_point, Y_scale, Y_zero_point) => "
     "(Y)",
     2, nullptr, &BetweenCodes},
    {"QLinearReduceMean <axes, keepdims: int = 1> (X, X_scale, X_zero_point, Y_scale, "
     "Y_zero_point) => (Y)",
     2, nullptr, &BetweenCodes},
    {"QLinearGlobalAveragePool <channels_last: int = 0> (X, X_scale, X_zero_point, Y_scale, "
     "Y_zero_point) => (Y)",
     2, nullptr, &BetweenCodes},
    {"QLinearAveragePool <auto_pad, ceil_mode, channels_last: int = 0, count_include_pad, "
     "kernel_shape, pads, strides> (X, X_scale, X_zero_point, Y_scale, Y_zero_point) => (Y)",
     2, nullptr, &BetweenCodes},
    {"QLinearWhere (condition, X, x_scale, x_zero_point, Y, y_scale, y_zero_point, z_scale, "
     "z_zero_point) => (Z)",
     9,
     "x = DequantizeLinear(X, x_scale, x_zero_point) y = DequantizeLinear(Y, y_scale, "
     "y_zero_point) z = Where(condition, x, y) Z = QuantizeLinear(z, z_scale, z_zero_point)"},
    {"QLinearConcat <axis> (Y_scale, Y_zero_point, x...) => (Y)", 2, nullptr, &QLinearConcat},
    {"MatMulNBits <N, K, bits: int = 4, block_size, accuracy_level, weight_prepacked> (A, B, "
     "scales, zero_points, g_idx, bias) => (Y)",
     3, nullptr, &MatMulNBits},
    {"MatMulNBitsQLoRA <N, K, bits: int = 4, block_size: int = 32, lora_bits: int = 8, "
     "lora_block_size: int = 32, accuracy_level> (X, W, scales, lora_A, lora_A_scales, lora_B, "
     "lora_B_scales) => (Y)",
     7, nullptr, &MatMulNBitsQLoRA},
    {"MatMulBnb4 <N, K, block_size, quant_type, transB: int = 1, training_mode> (A, B, absmax) => "
     "(Y)",
     3, nullptr, &MatMulBnb4},
    {"MulInteger (A, A_zero_point, B, B_zero_point) => (C)", 1, nullptr, &MulInteger},
};

}  // namespace

ArrayRef<ContribOp> ContribQuantized() { return kOps; }

}  // namespace fusec
