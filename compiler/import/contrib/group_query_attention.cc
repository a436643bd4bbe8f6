// Attention whose keys and values have fewer heads than the queries, with a cache of keys and
// values to which each call adds: sequence b has seqlens_k[b] + 1 positions, the last of which are
// new.
#include <fmt/format.h>

#include <limits>

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
  const std::string apart = s.Of("Reshape", x, shape);
  return s.Of("Transpose<perm = [0, 2, 1, 3]>", apart);
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
    const std::string length = s_.Of("Add", s_.Let("Cast<to = 7>(seqlens_k)"), s_.Int(1));
    new_ = s_.Dim("query", 1);
    const std::string before = s_.Of("Sub", length, new_);
    start_ = s_.Of("Reshape", s_.Of("Max", before, s_.Int(0)), column);
    if (node_.Has("q_norm_weight")) f_.q = Normalized(f_.q, "q_norm_weight", "num_heads");
    if (node_.Has("k_norm_weight")) f_.k = Normalized(f_.k, "k_norm_weight", "kv_num_heads");
    if (node_.Int("do_rotary") != 0) FUSEC_TRY(Rotate());
    const int64_t kv_heads = node_.Int("kv_num_heads");
    std::string k = HeadsApart(s_, f_.k, kv_heads, f_.size);
    std::string v = HeadsApart(s_, f_.v, kv_heads, f_.size);
    keys_ = s_.Iota(new_);
    if (node_.Int("sliding_window_cache") != 0) {
      const std::string total = s_.Of("Reshape", length, column);
      AppendToWindow(total, k, v);
    } else if (has_past_) {
      AppendToCache(k, v);
    } else {
      Present(k, v);
    }
    Attend(HeadsApart(s_, f_.q, node_.Int("num_heads"), f_.size), k, v);
    return s_.text();
  }

 private:
  std::string Scalar(const char* input) {
    const std::string wide = s_.Of("Cast<to = 7>", input);
    return s_.Of("Reshape", wide, s_.Ints({}));
  }

  void Present(const std::string& k, const std::string& v) {
    if (node_.Uses("present_key")) s_.Set("present_key", fmt::format("Identity({})", k));
    if (node_.Uses("present_value")) s_.Set("present_value", fmt::format("Identity({})", v));
  }

  // The RMS norm of each head of `x`, [batch, new positions, heads * size].
  std::string Normalized(const std::string& x, const char* weight, const char* heads) {
    const std::string apart = s_.Of("Reshape", x, s_.Ints({0, 0, node_.Int(heads), f_.size}));
    const std::string normal =
        s_.Of("RMSNormalization<epsilon: float = @qk_norm_epsilon>", apart, weight);
    return s_.Of("Reshape", normal, s_.Ints({0, 0, -1}));
  }

  // Rotates queries and keys by their positions.
  Result<void> Rotate() {
    FUSEC_ASSIGN(const int64_t half, node_.FixedDim("cos_cache", 1));
    std::string positions = "position_ids";
    if (!node_.Has("position_ids")) positions = s_.Of("Add", start_, s_.Iota(new_));
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

  // Keys and values of the cache with the new ones: position i is in row i.
  void AppendToCache(std::string& k, std::string& v) {
    const std::string past = s_.Dim("past_key", 2);
    const std::string total = s_.Of("Max", Scalar("total_sequence_length"), past);
    keys_ = s_.Iota(total);
    const std::string more = s_.Of("Reshape", s_.Of("Sub", total, past), s_.Ints({1}));
    const std::string pads =
        s_.Of("Concat<axis = 0>", s_.Ints({0, 0, 0, 0, 0, 0}), more, s_.Ints({0}));
    const std::string first = s_.Of("Reshape", start_, s_.Ints({-1}));
    k = s_.Of("TensorScatter<axis = 2>", s_.Of("Pad", "past_key", pads), k, first);
    v = s_.Of("TensorScatter<axis = 2>", s_.Of("Pad", "past_value", pads), v, first);
    Present(k, v);
    // Rows behind the last position may hold anything.
    const std::string end = s_.Of("Unsqueeze", s_.Of("Add", start_, new_), s_.Ints({1, 3}));
    const std::string row = s_.Of("Reshape", keys_, s_.Ints({-1, 1}));
    v = s_.Of("Where", s_.Of("Less", row, end), v, s_.Number(0, "query"));
  }

  // The same for a cache of C rows that holds only the last positions, at least a window of W:
  // after T positions, rows 0 to L - 1 hold the last L of them, where L = T - G * ceil(max(T - C,
  // 0) / G) with G = C - W + 1 (onnxruntime, docs/ContribOperators.md). `total` is T, [batch, 1].
  // The queries see the rows before this call and the new ones behind them.
  void AppendToWindow(const std::string& total, std::string& k, std::string& v) {
    const std::string capacity = s_.Dim("past_key", 2), zero = s_.Int(0), one = s_.Int(1);
    const std::string group =
        s_.Of("Sub", s_.Of("Add", capacity, one), s_.Int(node_.Int("local_window_size")));
    const auto resident = [&](const std::string& positions) {
      const std::string over = s_.Of("Max", s_.Of("Sub", positions, capacity), zero);
      const std::string groups = s_.Of("Div", s_.Of("Sub", s_.Of("Add", over, group), one), group);
      return s_.Of("Sub", positions, s_.Of("Mul", groups, group));
    };
    const std::string old = resident(start_);
    const std::string first = s_.Of("Sub", start_, old);  // the position in row 0 before this call
    k = s_.Of("Concat<axis = 2>", "past_key", k);
    v = s_.Of("Concat<axis = 2>", "past_value", v);

    const std::string position =
        s_.Of("Add", s_.Iota(capacity), s_.Of("Sub", total, resident(total)));  // [batch, C]
    const std::string fresh = s_.Of("Add", s_.Of("Sub", position, start_), capacity);
    const std::string is_fresh = s_.Of("GreaterOrEqual", position, start_);
    const std::string place =
        s_.Of("Where", is_fresh, fresh, s_.Of("Max", s_.Of("Sub", position, first), zero));
    Present(Taken(k, place, capacity), Taken(v, place, capacity));

    const std::string row = s_.Iota(s_.Of("Add", capacity, new_));
    const std::string unused = s_.Int(int64_t{1} << 40);  // beyond all queries
    const std::string past =
        s_.Of("Where", s_.Of("Less", row, old), s_.Of("Add", row, first), unused);
    const std::string added = s_.Of("Add", s_.Of("Sub", row, capacity), start_);
    keys_ = s_.Of("Unsqueeze", s_.Of("Where", s_.Of("Less", row, capacity), past, added),
                  s_.Ints({1, 2}));
  }

  // Rows `place` [batch, count] of `all` [batch, heads, rows, size], the last one for places
  // beyond.
  std::string Taken(const std::string& all, const std::string& place, const std::string& count) {
    const std::string last = s_.Of("Sub", s_.Dim(all, 2), s_.Int(1));
    const std::string inside = s_.Of("Min", place, last);
    const std::string heads = s_.Of("Shape<start = 0, end = 2>", all);
    const std::string size = s_.Of("Shape<start = 3, end = 4>", all);
    const std::string rows = s_.Of("Reshape", count, s_.Ints({1}));
    const std::string shape = s_.Of("Concat<axis = 0>", heads, rows, size);
    const std::string places = s_.Of("Expand", s_.Of("Unsqueeze", inside, s_.Ints({1, 3})), shape);
    return s_.Of("GatherElements<axis = 2>", all, places);
  }

  // Query i of sequence b sees the keys up to its own position start_[b] + i, and if there is a
  // window, only so many of the last ones.
  void Attend(const std::string& q, const std::string& k, const std::string& v) {
    const int64_t window = node_.Int("local_window_size", -1);
    const bool is_causal = node_.Int("causal", 1) != 0;
    std::string mask;
    if (has_past_ || window > 0) {
      const std::string own = s_.Of("Add", start_, s_.Iota(new_));  // [batch, new]
      const std::string row = s_.Of("Unsqueeze", own, s_.Ints({1, 3}));
      std::string last = row;
      if (!is_causal) {
        const std::string end = s_.Of("Sub", s_.Of("Add", start_, new_), s_.Int(1));
        last = s_.Of("Unsqueeze", end, s_.Ints({1, 3}));
      }
      mask = s_.Of("LessOrEqual", keys_, last);
      if (window > 0)
        mask = s_.Of("And", mask, s_.Of("Greater", keys_, s_.Of("Sub", row, s_.Int(window))));
    }
    if (node_.Has("attention_bias")) {
      if (mask.empty()) {
        mask = "attention_bias";
      } else {
        const double infinity = std::numeric_limits<double>::infinity();
        mask = s_.Of("Where", mask, "attention_bias", s_.Number(-infinity, "query"));
      }
    }
    std::string attributes =
        fmt::format("is_causal = {}, softcap: float = @softcap", is_causal && !has_past_ ? 1 : 0);
    if (node_.Float("scale", 0) != 0) attributes += ", scale: float = @scale";
    const std::string y =
        s_.Let(fmt::format("Attention<{}>({}, {}, {}, {})", attributes, q, k, v, mask));
    const std::string by_position = s_.Of("Transpose<perm = [0, 2, 1, 3]>", y);
    s_.Set("output", fmt::format("Reshape({}, {})", by_position, s_.Ints({0, 0, -1})));
  }

  const ContribNode& node_;
  Factors f_;
  Statements s_;
  bool has_past_ = false;
  std::string start_, new_;
  std::string keys_;  // the positions of the keys, which broadcast to [batch, 1, new, keys]
};

}  // namespace

Result<std::string> GroupQueryAttention(const ContribNode& node) {
  FUSEC_TRY(node.Refuse({"head_sink", "k_scale", "v_scale"}, {"qk_output"}));
  if (node.Int("sliding_window_cache") != 0) {
    FUSEC_TRY(node.Require({"past_key", "past_value"}));
    FUSEC_TRY(node.Refuse({"attention_bias"}, {}));
    if (node.Int("local_window_size", -1) < 1)
      return node.Fail("sliding_window_cache is 1, and local_window_size less than 1");
  }
  if (node.Int("smooth_softmax", -1) > 0) return node.Fail("smooth_softmax is not supported");
  FUSEC_TRY(node.Require({"seqlens_k", "total_sequence_length"}));
  if (node.Int("do_rotary") != 0) FUSEC_TRY(node.Require({"cos_cache", "sin_cache"}));
  if (node.Has("past_key")) FUSEC_TRY(node.Require({"past_value"}));
  Statements s;
  FUSEC_ASSIGN(const Factors factors, FactorsOf(node, s));
  return Writer(node, factors).Write(std::move(s));
}

}  // namespace fusec
