// Attention whose keys and values have fewer heads than the queries, with a cache of keys and
// values to which each call adds: sequence b has seqlens_k[b] + 1 positions, the last of which are
// new.
#include <fmt/format.h>

#include "compiler/import/contrib/contrib_attention.h"

namespace fusec {
namespace {

// The queries, keys and values, [batch, new positions, heads * size], and the size of a head.
struct Factors {
  std::string q, k, v;
  int64_t size = 0;
};

Result<Factors> FactorsOf(const ContribNode& node, Statements& s) {
  const int64_t heads = node.Int("num_heads"), kv_heads = node.Int("kv_num_heads");
  if (heads < 1 || kv_heads < 1) return node.Fail("num_heads or kv_num_heads is missing");
  FUSEC_ASSIGN(const int64_t width, node.FixedDim("query", 2));
  const bool is_packed = !node.Has("key") || !node.Has("value");
  const int64_t parts_of_width = is_packed ? heads + 2 * kv_heads : heads;
  if (heads > width || kv_heads > width || width % parts_of_width != 0) {
    return node.Fail(fmt::format("the query is {}, and num_heads {} and kv_num_heads {}",
                                 node.Type("query").ToString(), heads, kv_heads));
  }
  const int64_t size = width / parts_of_width;
  if (!is_packed) return Factors{"query", "key", "value", size};
  const auto parts = s.Split("query", 2, {heads * size, kv_heads * size, kv_heads * size});
  return Factors{parts[0], parts[1], parts[2], size};
}

std::string HeadsApart(Statements& s, const std::string& x, int64_t heads, int64_t size) {
  const std::string shape = s.Ints({0, 0, heads, size});
  const std::string apart = s.Let(fmt::format("Reshape({}, {})", x, shape));
  return s.Let(fmt::format("Transpose<perm = [0, 2, 1, 3]>({})", apart));
}

class Writer {
 public:
  Writer(const ContribNode& node, const Factors& factors) : node_(node), f_(factors) {}

  Result<std::string> Write(Statements s) {
    s_ = std::move(s);
    has_past_ = node_.Has("past_key");
    // How many positions sequence b had before, [batch, 1]. Padding behind a first prompt makes it
    // negative.
    const std::string column = s_.Ints({-1, 1});
    const std::string length =
        s_.Let(fmt::format("Add({}, {})", s_.Let("Cast<to = 7>(seqlens_k)"), s_.Int(1)));
    new_ = s_.Dim("query", 1);
    const std::string before = s_.Let(fmt::format("Sub({}, {})", length, new_));
    start_ = s_.Let(fmt::format("Reshape({}, {})",
                                s_.Let(fmt::format("Max({}, {})", before, s_.Int(0))), column));
    if (node_.Int("do_rotary") != 0) FUSEC_TRY(Rotate());
    const int64_t kv_heads = node_.Int("kv_num_heads");
    std::string k = HeadsApart(s_, f_.k, kv_heads, f_.size);
    std::string v = HeadsApart(s_, f_.v, kv_heads, f_.size);
    total_ = new_;
    if (has_past_) {
      const std::string past = s_.Dim("past_key", 2);
      const std::string given = Scalar("total_sequence_length");
      total_ = s_.Let(fmt::format("Max({}, {})", given, past));
      const std::string place = PlacesOf(past);
      k = Extended("past_key", k, place);
      v = Extended("past_value", v, place);
    }
    if (node_.Uses("present_key")) s_.Set("present_key", fmt::format("Identity({})", k));
    if (node_.Uses("present_value")) s_.Set("present_value", fmt::format("Identity({})", v));
    Attend(HeadsApart(s_, f_.q, node_.Int("num_heads"), f_.size), k, v);
    return s_.text();
  }

 private:
  std::string Scalar(const char* input) {
    const std::string wide = s_.Let(fmt::format("Cast<to = 7>({})", input));
    return s_.Let(fmt::format("Reshape({}, {})", wide, s_.Ints({})));
  }

  // Rotates queries and keys by their positions.
  Result<void> Rotate() {
    FUSEC_ASSIGN(const int64_t half, node_.FixedDim("cos_cache", 1));
    std::string positions = "position_ids";
    if (!node_.Has("position_ids"))
      positions = s_.Let(fmt::format("Add({}, {})", start_, s_.Iota(new_)));
    const auto rotated = [&](const std::string& x, int64_t heads) {
      return s_.Let(
          fmt::format("RotaryEmbedding<interleaved: int = @rotary_interleaved, num_heads = {}, "
                      "rotary_embedding_dim = {}>({}, cos_cache, sin_cache, {})",
                      heads, 2 * half == f_.size ? 0 : 2 * half, x, positions));
    };
    f_.q = rotated(f_.q, node_.Int("num_heads"));
    f_.k = rotated(f_.k, node_.Int("kv_num_heads"));
    return {};
  }

  // For every position of the cache, [batch, total], the place of its keys among the past ones and
  // the new ones behind them: the first `start_` are past.
  std::string PlacesOf(const std::string& past) {
    const std::string position = s_.Iota(total_);
    const std::string is_past = s_.Let(fmt::format("Less({}, {})", position, start_));
    const std::string offset = s_.Let(fmt::format("Sub({}, {})", past, start_));
    const std::string fresh = s_.Let(fmt::format("Add({}, {})", position, offset));
    const std::string place = s_.Let(fmt::format("Where({}, {}, {})", is_past, position, fresh));
    const std::string count = s_.Let(fmt::format("Add({}, {})", past, new_));
    const std::string last = s_.Let(fmt::format("Sub({}, {})", count, s_.Int(1)));
    return s_.Let(fmt::format("Min({}, {})", place, last));
  }

  // The cache with the new positions: [batch, heads, total, size].
  std::string Extended(const char* past, const std::string& fresh, const std::string& place) {
    const std::string all = s_.Let(fmt::format("Concat<axis = 2>({}, {})", past, fresh));
    const std::string heads = s_.Let(fmt::format("Shape<start = 0, end = 2>({})", fresh));
    const std::string size = s_.Let(fmt::format("Shape<start = 3, end = 4>({})", fresh));
    const std::string total = s_.Let(fmt::format("Reshape({}, {})", total_, s_.Ints({1})));
    const std::string shape =
        s_.Let(fmt::format("Concat<axis = 0>({}, {}, {})", heads, total, size));
    const std::string apart = s_.Let(fmt::format("Unsqueeze({}, {})", place, s_.Ints({1, 3})));
    const std::string places = s_.Let(fmt::format("Expand({}, {})", apart, shape));
    return s_.Let(fmt::format("GatherElements<axis = 2>({}, {})", all, places));
  }

  // Query i of sequence b sees the keys up to its own position start_[b] + i, and if there is a
  // window, only so many of the last ones.
  void Attend(const std::string& q, const std::string& k, const std::string& v) {
    const int64_t window = node_.Int("local_window_size", -1);
    const bool is_causal = node_.Int("causal", 1) != 0;
    std::string mask;
    if (has_past_ || window > 0) {
      const std::string own =
          s_.Let(fmt::format("Add({}, {})", start_, s_.Iota(new_)));  // [batch, new]
      const std::string row = s_.Let(fmt::format("Unsqueeze({}, {})", own, s_.Ints({1, 3})));
      const std::string key = s_.Iota(total_);
      std::string last = row;
      if (!is_causal) {
        const std::string end = s_.Let(fmt::format("Add({}, {})", start_, new_));
        const std::string before = s_.Let(fmt::format("Sub({}, {})", end, s_.Int(1)));
        last = s_.Let(fmt::format("Unsqueeze({}, {})", before, s_.Ints({1, 3})));
      }
      mask = s_.Let(fmt::format("LessOrEqual({}, {})", key, last));
      if (window > 0) {
        const std::string outside = s_.Let(fmt::format("Sub({}, {})", row, s_.Int(window)));
        const std::string near = s_.Let(fmt::format("Greater({}, {})", key, outside));
        mask = s_.Let(fmt::format("And({}, {})", mask, near));
      }
    }
    if (node_.Has("attention_bias")) {
      if (mask.empty()) {
        mask = "attention_bias";
      } else {
        const std::string none = s_.Let("Constant<value_float = -3.4e38>()");
        const std::string out = s_.Let(fmt::format("CastLike({}, query)", none));
        mask = s_.Let(fmt::format("Where({}, attention_bias, {})", mask, out));
      }
    }
    std::string attributes =
        fmt::format("is_causal = {}, softcap: float = @softcap", is_causal && !has_past_ ? 1 : 0);
    if (node_.Float("scale", 0) != 0) attributes += ", scale: float = @scale";
    const std::string y =
        s_.Let(fmt::format("Attention<{}>({}, {}, {}, {})", attributes, q, k, v, mask));
    const std::string by_position = s_.Let(fmt::format("Transpose<perm = [0, 2, 1, 3]>({})", y));
    s_.Set("output", fmt::format("Reshape({}, {})", by_position, s_.Ints({0, 0, -1})));
  }

  const ContribNode& node_;
  Factors f_;
  Statements s_;
  bool has_past_ = false;
  std::string start_, new_, total_;
};

}  // namespace

Result<std::string> GroupQueryAttention(const ContribNode& node) {
  FUSEC_TRY(node.Refuse({"head_sink", "k_scale", "v_scale", "q_norm_weight", "k_norm_weight"},
                        {"sliding_window_cache", "qk_output"}));
  if (node.Int("smooth_softmax", -1) > 0) return node.Fail("smooth_softmax is not supported");
  FUSEC_TRY(node.Require({"seqlens_k", "total_sequence_length"}));
  if (node.Int("do_rotary") != 0) FUSEC_TRY(node.Require({"cos_cache", "sin_cache"}));
  if (node.Has("past_key")) FUSEC_TRY(node.Require({"past_value"}));
  Statements s;
  FUSEC_ASSIGN(const Factors factors, FactorsOf(node, s));
  return Writer(node, factors).Write(std::move(s));
}

}  // namespace fusec
