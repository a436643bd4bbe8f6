// Attention of onnxruntime, as projections, masks and ONNX's Attention.
#include <fmt/format.h>

#include <cmath>

#include "compiler/import/contrib/contrib_attention.h"
#include "compiler/import/contrib/contrib_ops.h"

namespace fusec {
namespace {

constexpr double kFilter = -10000;  // what masks add to scores, unless mask_filter_value says else

// What is added to the scores [batch, heads, queries, keys] for keys that the mask leaves out, in
// the dtype of `like`; "" without a mask. Masks are
//   [batch, keys], [batch, queries, keys]  integers, 0 for keys that are left out
//   [batch]                                numbers of keys
//   [2 * batch]                            ends, and then begins, of the keys
// `keys` is the number of keys, and `bias` an input that is added as well, or null.
Result<std::string> MaskOf(const ContribNode& node, Statements& s, const char* mask,
                           const Expr& batch, const std::string& keys, const std::string& like,
                           const char* bias) {
  std::string added;
  if (node.Has(mask)) {
    const TensorType& type = node.Type(mask);
    std::string kept, axes = s.Ints({1, 2});
    if (type.rank() == 2 || type.rank() == 3) {
      const std::string zero = s.Number(0, mask);
      kept = s.Of("Greater", mask, zero);
      if (type.rank() == 3) axes = s.Ints({1});
    } else if (type.rank() == 1 && type.shape[0] == batch) {
      const std::string column = s.Ints({1});
      const std::string length = s.Of("Unsqueeze", mask, column);
      const std::string key = s.Of("CastLike", s.Iota(keys), mask);
      kept = s.Of("Less", key, length);
    } else if (type.rank() == 1 && type.shape[0] == batch * 2) {
      const std::string shape = s.Ints({2, -1, 1});
      const std::string both = s.Of("Reshape", mask, shape);
      const std::string end = s.Of("Gather", both, s.Int(0));
      const std::string begin = s.Of("Gather", both, s.Int(1));
      const std::string key = s.Of("CastLike", s.Iota(keys), mask);
      const std::string before_end = s.Of("Less", key, end);
      const std::string from_begin = s.Of("GreaterOrEqual", key, begin);
      kept = s.Of("And", before_end, from_begin);
    } else {
      return node.Fail(fmt::format("{} is {}, which is not supported", mask, type.ToString()));
    }
    kept = s.Of("Unsqueeze", kept, axes);
    const std::string zero = s.Number(0, like);
    const std::string filter = s.Number(node.Float("mask_filter_value", kFilter), like);
    added = s.Of("Where", kept, zero, filter);
  }
  if (bias == nullptr || !node.Has(bias)) return added;
  return added.empty() ? std::string(bias) : s.Of("Add", added, bias);
}

// The node's attributes of ONNX's Attention, for as many heads of keys as of queries.
std::string AttentionAttributes(const ContribNode& node) {
  const int64_t heads = node.Int("num_heads");
  std::string text = fmt::format("q_num_heads = {}, kv_num_heads = {}, is_causal = {}", heads,
                                 heads, node.Int("unidirectional") != 0 ? 1 : 0);
  if (node.Float("scale", 0) != 0) text += ", scale: float = @scale";
  return text;
}

// The keys (part 0) or the values (part 1) of a cache [2, batch, heads, positions, size].
std::string PartOf(Statements& s, const std::string& both, int part) {
  return s.Of("Gather", both, s.Int(part));
}

Result<std::string> Attention(const ContribNode& node) {
  FUSEC_TRY(node.Refuse({"past_sequence_length"}, {"do_rotary", "past_present_share_buffer"}));
  Statements s;
  const std::string qkv = s.Plus(s.Let("MatMul(input, weights)"), node, "bias");
  FUSEC_TRY(AttendTo(s, node, qkv, "weights", "attention_bias"));
  return s.text();
}

// A factor of attention with heads apart, [batch, heads, length, size], as [batch, length, heads *
// size].
std::string Joined(Statements& s, const std::string& x) {
  const std::string shape = s.Ints({0, 0, -1});
  return s.Of("Reshape", s.Of("Transpose<perm = [0, 2, 1, 3]>", x), shape);
}

// `count` factors that are packed as [batch, length, heads, count, size].
std::vector<std::string> Unpacked(Statements& s, const std::string& x, int count) {
  std::vector<std::string> parts;
  const std::string shape = s.Ints({0, 0, -1});
  for (int i = 0; i < count; ++i) {
    const std::string part = s.Of("Gather<axis = 3>", x, s.Int(i));
    parts.push_back(s.Of("Reshape", part, shape));
  }
  return parts;
}

Result<std::string> MultiHeadAttention(const ContribNode& node) {
  FUSEC_TRY(node.Refuse({"past_sequence_length", "cache_indirection"}, {}));
  Statements s;
  std::string q = "query", k = "key", v = "value";
  const bool is_cached = node.Has("key") && node.Rank("key") == 4;
  if (node.Has("past_key")) FUSEC_TRY(node.Require({"past_value"}));
  if (!node.Has("key")) {
    if (node.Rank("query") != 5) FUSEC_TRY(node.Require({"key"}));
    const auto parts = Unpacked(s, q, 3);
    q = parts[0], k = parts[1], v = parts[2];
  } else if (is_cached) {
    FUSEC_TRY(node.Require({"value"}));
    k = Joined(s, k), v = Joined(s, v);
  } else if (node.Rank("key") == 5) {
    const auto parts = Unpacked(s, k, 2);
    k = parts[0], v = parts[1];
  } else {
    FUSEC_TRY(node.Require({"value"}));
  }
  if (node.Has("bias")) {
    FUSEC_ASSIGN(const int64_t all, node.FixedDim("bias", 0));
    int64_t width = all / 3;  // of the queries, and of the keys
    if (node.Rank("query") == 3) {
      FUSEC_ASSIGN(width, node.FixedDim("query", 2));
    }
    const auto biases = s.Split("bias", 0, {width, width, all - 2 * width});
    q = s.Of("Add", q, biases[0]);
    if (!is_cached) {
      k = s.Of("Add", k, biases[1]);
      v = s.Of("Add", v, biases[2]);
    }
  }
  std::string keys = s.Dim(k, 1);
  if (node.Has("past_key")) keys = s.Of("Add", keys, s.Dim("past_key", 2));
  FUSEC_ASSIGN(const Expr batch, node.Dim("query", 0));
  FUSEC_ASSIGN(const std::string mask,
               MaskOf(node, s, "key_padding_mask", batch, keys, q, "attention_bias"));
  const bool has_present = node.Uses("present_key") || node.Uses("present_value");
  const bool has_past = node.Has("past_key");
  s.Set(has_present ? "output, present_key, present_value" : "output",
        fmt::format("Attention<{}>({}, {}, {}, {}, {}, {})", AttentionAttributes(node), q, k, v,
                    mask, has_past ? "past_key" : "", has_past ? "past_value" : ""));
  return s.text();
}

Result<std::string> RotaryEmbedding(const ContribNode& node) {
  FUSEC_TRY(node.Refuse({}, {"is_packed_batching"}));
  if (node.Float("scale", 1) != 1) return node.Fail("scale is not 1, which is not supported");
  Statements s;
  FUSEC_ASSIGN(const int64_t half, node.FixedDim("cos_cache", 1));
  int64_t heads = node.Int("num_heads");
  if (heads == 0 && node.Rank("input") == 3) {
    FUSEC_ASSIGN(const int64_t width, node.FixedDim("input", 2));
    heads = width / (2 * half);
  }
  std::string positions = "position_ids";
  if (node.Rank("position_ids") == 1) {  // of the first element, for all sequences
    const int along = node.Rank("input") == 3 ? 1 : 2;
    const std::string batch = s.Let("Shape<start = 0, end = 1>(input)");
    const std::string one = s.Ints({1});
    const std::string shape = s.Of("Concat<axis = 0>", batch, one);
    const std::string first = s.Of("Expand", "position_ids", shape);
    positions = s.Of("Add", first, s.Iota(s.Dim("input", along)));
  }
  s.Set("output",
        fmt::format("RotaryEmbedding<interleaved: int = @interleaved, num_heads = {}, "
                    "rotary_embedding_dim: int = @rotary_embedding_dim>(input, cos_cache, "
                    "sin_cache, {})",
                    heads, positions));
  return s.text();
}

// The bias by the distance of query and key of T5 (Raffel et al., 2020): [1, heads, queries, keys].
// Distances up to half of the buckets have one bucket each; farther ones share buckets whose width
// grows exponentially up to max_distance.
Result<std::string> RelativePositionBias(const ContribNode& node) {
  Statements s;
  FUSEC_ASSIGN(int64_t buckets, node.FixedDim("bias_table", 0));
  const auto iota = [&](const char* length, int64_t axis) {
    const std::string shape = s.Ints({});
    const std::string wide = s.Of("Cast<to = 7>", length);
    const std::string count = s.Of("Reshape", wide, shape);
    return s.Of("Unsqueeze", s.Iota(count), s.Ints({axis}));
  };
  const std::string query = iota("query_length", 1), key = iota("key_length", 0);
  std::string ahead = s.Of("Sub", key, query);
  const std::string zero = s.Int(0);
  std::string first = zero, distance;
  if (node.Int("is_bidirectional") != 0) {
    buckets /= 2;
    const std::string is_ahead = s.Of("Greater", ahead, zero);
    first = s.Of("Where", is_ahead, s.Int(buckets), zero);
    distance = s.Of("Abs", ahead);
  } else {
    distance = s.Of("Neg", s.Of("Min", ahead, zero));
  }
  const int64_t exact = buckets / 2, farthest = node.Int("max_distance");
  if (exact < 1 || farthest <= exact) {
    return node.Fail(fmt::format("max_distance is {}, and bias_table {}", farthest,
                                 node.Type("bias_table").ToString()));
  }
  const std::string limit = s.Int(exact);
  const std::string is_near = s.Of("Less", distance, limit);
  // exact + log(distance / exact) / log(max_distance / exact) * (buckets - exact)
  const std::string real = s.Of("Cast<to = 1>", s.Of("Max", distance, s.Int(1)));
  const std::string ratio = s.Of("Div", real, s.Number(static_cast<double>(exact), real));
  const double slope = static_cast<double>(buckets - exact) /
                       std::log(static_cast<double>(farthest) / static_cast<double>(exact));
  const std::string steps = s.Of("Mul", s.Of("Log", ratio), s.Number(slope, real));
  const std::string whole = s.Of("Cast<to = 7>", steps);
  std::string far = s.Of("Add", whole, limit);
  far = s.Of("Min", far, s.Int(buckets - 1));
  const std::string own = s.Of("Where", is_near, distance, far);
  const std::string bucket = s.Of("Add", first, own);
  const std::string biases = s.Of("Gather", "bias_table", bucket);
  const std::string by_head = s.Of("Transpose<perm = [2, 0, 1]>", biases);
  s.Set("output", fmt::format("Unsqueeze({}, {})", by_head, s.Ints({0})));
  return s.text();
}

constexpr ContribOp kOps[] = {
    {"Attention <num_heads, unidirectional: int = 0, mask_filter_value, scale, qkv_hidden_sizes, "
     "do_rotary, rotary_embedding_dim, past_present_share_buffer> (input, weights, bias, "
     "mask_index, past, attention_bias, past_sequence_length) => (output, present)",
     2, nullptr, &Attention},
    {"MultiHeadAttention <num_heads, unidirectional: int = 0, mask_filter_value, scale> (query, "
     "key, value, bias, key_padding_mask, attention_bias, past_key, past_value, "
     "past_sequence_length, cache_indirection) => (output, present_key, present_value, qk)",
     1, nullptr, &MultiHeadAttention},
    {"GroupQueryAttention <num_heads, kv_num_heads, causal: int = 1, do_rotary: int = 0, "
     "rotary_interleaved: int = 0, local_window_size: int = -1, scale, softcap: float = 0.0, "
     "smooth_softmax: int = -1, sliding_window_cache, qk_output, kv_cache_bit_width, k_quant_type, "
     "v_quant_type, qk_norm_epsilon: float = 0.000001> (query, key, value, past_key, past_value, "
     "seqlens_k, "
     "total_sequence_length, cos_cache, sin_cache, position_ids, attention_bias, head_sink, "
     "k_scale, v_scale, q_norm_weight, k_norm_weight) => (output, present_key, present_value, "
     "output_qk)",
     1, nullptr, &GroupQueryAttention},
    {"RotaryEmbedding <interleaved: int = 0, num_heads: int = 0, rotary_embedding_dim: int = 0, "
     "scale, is_packed_batching> (input, position_ids, cos_cache, sin_cache) => (output)",
     4, nullptr, &RotaryEmbedding},
    {"RelativePositionBias <is_bidirectional: int = 0, max_distance> (bias_table, query_length, "
     "key_length) => (output)",
     3, nullptr, &RelativePositionBias},
};

}  // namespace

Result<void> AttendTo(Statements& s, const ContribNode& node, const std::string& projected,
                      const char* weights, const char* bias) {
  FUSEC_ASSIGN(const int64_t width, node.FixedDim(weights, 1));
  std::vector<int64_t> widths = node.context().Ints("qkv_hidden_sizes");
  if (widths.empty()) widths = {width / 3, width / 3, width - 2 * (width / 3)};
  if (widths.size() != 3 || widths[0] + widths[1] + widths[2] != width) {
    return node.Fail(fmt::format("qkv_hidden_sizes do not add up to {}, the width of {}", width,
                                 node.Type(weights).ToString()));
  }
  const auto qkv = s.Split(projected, -1, widths);
  std::string keys = s.Dim("input", 1), past_key, past_value;
  if (node.Has("past")) {
    past_key = PartOf(s, "past", 0);
    past_value = PartOf(s, "past", 1);
    keys = s.Of("Add", keys, s.Dim("past", 3));
  }
  FUSEC_ASSIGN(const Expr batch, node.Dim("input", 0));
  FUSEC_ASSIGN(const std::string mask, MaskOf(node, s, "mask_index", batch, keys, projected, bias));
  const bool has_present = node.Uses("present");
  s.Set(has_present ? "output, present_key, present_value" : "output",
        fmt::format("Attention<{}>({}, {}, {}, {}, {}, {})", AttentionAttributes(node), qkv[0],
                    qkv[1], qkv[2], mask, past_key, past_value));
  if (has_present) {
    const std::string axis = s.Ints({0});
    const std::string key = s.Of("Unsqueeze", "present_key", axis);
    const std::string value = s.Of("Unsqueeze", "present_value", axis);
    s.Set("present", fmt::format("Concat<axis = 0>({}, {})", key, value));
  }
  return {};
}

ArrayRef<ContribOp> ContribAttention() { return kOps; }

}  // namespace fusec
