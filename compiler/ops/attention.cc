// attention: scaled dot product attention as ONNX defines it in opsets 23 to 25.
//   attributes  is_causal, scale, softcap, qk_matmul_output_mode, q_num_heads, kv_num_heads,
//               softmax_dtype, pads_mask, left_window?, right_window?
//   operands    q, k, v, mask?, past_key?, past_value?, nonpad_length?
//   results     y, present_key, present_value, scores
//
//   scores = q k^T * scale;   softcap: c * tanh(scores / c);   + mask;   y = softmax(scores) v
//
// Query i is at position i + past_length of the keys, or at i + nonpad_length - q_length if the
// keys end with padding. A causal attention hides keys behind that position, and windows those that
// are more than so many positions before or behind it. A query from which all keys are hidden gives
// zeros.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/import/import_context.h"
#include "compiler/ops/attention_shape.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/reduction_common.h"
#include "compiler/reference/reference_context.h"

namespace fusec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kLongestWindow = int64_t{1} << 40;  // no tensor has so many keys
constexpr const char* kLeftWindow = "left_window";
constexpr const char* kRightWindow = "right_window";

// The stage of the scores that becomes result 3.
enum ScoresStage : int64_t { kRawScores, kCappedScores, kMaskedScores, kProbabilities };

std::vector<const TensorType*> OperandTypes(ArrayRef<Value*> operands) {
  std::vector<const TensorType*> types;
  for (const Value* operand : operands) types.push_back(operand ? &operand->type : nullptr);
  return types;
}

Result<void> ImportAttention(ImportContext& context) {
  ValueList operands;
  for (int i = 0; i < context.input_count(); ++i) operands.push_back(context.input(i));
  while (operands.back() == nullptr) operands.pop_back();
  const int64_t q_heads = context.Int("q_num_heads", 0);
  const int64_t kv_heads = context.Int("kv_num_heads", 0);
  const Result<AttentionShape> shape =
      AttentionShape::Of(OperandTypes(operands), q_heads, kv_heads);
  if (!shape) return tl::unexpected<Error>(shape.error());
  double scale = context.Float("scale", 0);
  if (!context.Has("scale")) {
    const std::optional<int64_t> size = shape->head_size.AsConstant();
    if (!size) {
      return context.Fail(
          fmt::format("the head size is {}, expected a number where scale is not given",
                      shape->head_size.ToString()));
    }
    scale = 1 / std::sqrt(static_cast<double>(*size));
  }
  Attributes windows;
  for (const auto& [attribute, name] :
       {std::pair{"left_window_size", kLeftWindow}, std::pair{"right_window_size", kRightWindow}}) {
    const int64_t size = context.Int(attribute, -1);
    if (size < -1)
      return context.Fail(fmt::format("{} is {}, expected -1 (no limit) or more", attribute, size));
    if (size >= 0 && size < kLongestWindow) windows[name] = size;
  }
  FUSEC_ASSIGN(const Dtype softmax_dtype,
               context.Type("softmax_precision", ComputeDtype(operands[0]->type.dtype)));
  Attributes attributes = {{"is_causal", int64_t{context.Int("is_causal", 0) != 0}},
                           {"scale", scale},
                           {"softcap", context.Float("softcap", 0)},
                           {"qk_matmul_output_mode", context.Int("qk_matmul_output_mode", 0)},
                           {"q_num_heads", q_heads},
                           {"kv_num_heads", kv_heads},
                           {"softmax_dtype", softmax_dtype},
                           {"pads_mask", int64_t{context.opset() >= 24}}};
  attributes.insert(windows.begin(), windows.end());
  return context.AddNode(OpKind::kAttention, std::move(operands), std::move(attributes));
}

InferResult InferAttention(const InferContext& context) {
  FUSEC_ASSIGN(const AttentionShape s,
               AttentionShape::Of(context.operands, context.Int("q_num_heads"),
                                  context.Int("kv_num_heads")));
  const int64_t mode = context.Int("qk_matmul_output_mode");
  if (mode < 0 || mode > 3) {
    return ModelError(fmt::format("qk_matmul_output_mode is {}, expected 0, 1, 2 or 3", mode));
  }
  FUSEC_TRY(s.CheckMask(context.has_operand(3) ? &context.operand(3) : nullptr,
                        context.Int("pads_mask") != 0));
  const TensorType& q = context.operand(0);
  const TensorType& k = context.operand(1);
  const TensorType& v = context.operand(2);
  Shape y = {s.batch, s.q_heads, s.q_length, s.v_head_size};
  if (s.packed) y = {s.batch, s.q_length, s.q_heads * s.v_head_size};
  return std::vector<TensorType>{{q.dtype, y},
                                 {k.dtype, {s.batch, s.kv_heads, s.total_length, s.head_size}},
                                 {v.dtype, {s.batch, s.kv_heads, s.total_length, s.v_head_size}},
                                 {q.dtype, {s.batch, s.q_heads, s.q_length, s.total_length}}};
}

// --- reference ---

// Reads q, k or v, stored as [batch, heads, length, size] or packed as [batch, length, heads *
// size]. Positions of the past, if there is one, come first.
class HeadReader {
 public:
  HeadReader(const ReferenceTensor& tensor, const ReferenceTensor* past, int64_t heads)
      : tensor_(tensor),
        past_(past),
        packed_(tensor.dims.size() == 3),
        heads_(heads),
        length_(tensor.dims[packed_ ? 1 : 2]),
        size_(packed_ ? tensor.dims[2] / heads : tensor.dims[3]),
        past_length_(past == nullptr ? 0 : past->dims[2]) {}

  int64_t total_length() const { return past_length_ + length_; }
  int64_t past_length() const { return past_length_; }
  int64_t size() const { return size_; }
  double At(int64_t b, int64_t h, int64_t i, int64_t d) const {
    if (i < past_length_) return past_->reals[((b * heads_ + h) * past_length_ + i) * size_ + d];
    i -= past_length_;
    if (packed_) return tensor_.reals[((b * length_ + i) * heads_ + h) * size_ + d];
    return tensor_.reals[((b * heads_ + h) * length_ + i) * size_ + d];
  }

 private:
  const ReferenceTensor& tensor_;
  const ReferenceTensor* past_;
  bool packed_;
  int64_t heads_, length_, size_, past_length_;
};

// What the mask adds to score [b, h, i, j].
double MaskAt(const ReferenceContext& context, ArrayRef<int64_t> index) {
  if (!context.has_input(3)) return 0;
  const ReferenceTensor& mask = context.input(3);
  const bool pads = context.node.Int("pads_mask") != 0;
  const int64_t length = mask.dims.back();
  if (index.back() >= length && (pads || length != 1)) return -kInfinity;
  const int64_t position = BroadcastPosition(mask.dims, index);
  if (mask.dtype == Dtype::kBool) return mask.ints[position] != 0 ? 0 : -kInfinity;
  return mask.reals[position];
}

// Whether the position of a query hides the key from it.
bool IsHidden(const Node& node, int64_t position, int64_t key) {
  return (node.Int("is_causal") != 0 && key > position) ||
         (node.Has(kLeftWindow) && key < position - node.Int(kLeftWindow)) ||
         (node.Has(kRightWindow) && key > position + node.Int(kRightWindow));
}

void WritePresent(const HeadReader& reader, ReferenceTensor& present) {
  int64_t to = 0;
  ForEachIndex(present.dims, [&](ArrayRef<int64_t> index) {
    present.reals[to++] = reader.At(index[0], index[1], index[2], index[3]);
  });
}

Result<void> ReferenceAttention(ReferenceContext& context) {
  const Node& node = context.node;
  const int64_t q_heads = context.output(3).dims[1];
  const int64_t kv_heads = context.output(1).dims[1];
  const auto past = [&](int i) { return context.has_input(i) ? &context.input(i) : nullptr; };
  const HeadReader q(context.input(0), nullptr, q_heads);
  const HeadReader k(context.input(1), past(4), kv_heads);
  const HeadReader v(context.input(2), past(5), kv_heads);
  WritePresent(k, context.output(1));
  WritePresent(v, context.output(2));
  const int64_t mode = node.Int("qk_matmul_output_mode");
  const double softcap = node.Float("softcap");
  const bool packed = context.output().dims.size() == 3;
  std::vector<double> row(k.total_length());
  ForEachIndex({context.output().dims[0], q_heads, q.total_length()}, [&](ArrayRef<int64_t> at) {
    const int64_t b = at[0], h = at[1], i = at[2], kv = h / (q_heads / kv_heads);
    double* given = context.output(3).reals.data() +
                    ((b * q_heads + h) * q.total_length() + i) * k.total_length();
    const bool ends_with_padding = context.has_input(6) && !context.has_input(4);
    const int64_t first =
        ends_with_padding ? context.input(6).ints[b] - q.total_length() : k.past_length();
    double greatest = -kInfinity;
    for (int64_t j = 0; j < k.total_length(); ++j) {
      double score = 0;
      for (int64_t d = 0; d < q.size(); ++d) score += q.At(b, h, i, d) * k.At(b, kv, j, d);
      score *= node.Float("scale");
      if (mode == kRawScores) given[j] = score;
      if (softcap != 0) score = softcap * std::tanh(score / softcap);
      if (mode == kCappedScores) given[j] = score;
      score += MaskAt(context, {b, h, i, j});
      if (IsHidden(node, first + i, j)) score = -kInfinity;
      if (context.has_input(6) && j >= context.input(6).ints[b]) score = -kInfinity;
      if (mode == kMaskedScores) given[j] = score;
      row[j] = score;
      if (std::isnan(score) || score > greatest) greatest = score;
    }
    double sum = 0;
    for (double& score : row) sum += score = std::exp(score - greatest);
    for (double& score : row) score = greatest == -kInfinity ? 0 : score / sum;
    if (mode == kProbabilities) std::copy(row.begin(), row.end(), given);
    // The padding may hold anything, also infinities and NaNs.
    const int64_t length = context.has_input(6)
                               ? std::min(context.input(6).ints[b], k.total_length())
                               : k.total_length();
    for (int64_t d = 0; d < v.size(); ++d) {
      double y = 0;
      for (int64_t j = 0; j < length; ++j) y += row[j] * v.At(b, kv, j, d);
      const int64_t position = packed ? (b * q.total_length() + i) * q_heads + h
                                      : (b * q_heads + h) * q.total_length() + i;
      context.output().reals[position * v.size() + d] = y;
    }
  });
  return {};
}

// --- decomposition ---

// Reshapes [batch, length, heads * size] to [batch, heads, length, size].
Value* Unpacked(Formula& f, Value* x, const Expr& heads, const Expr& size) {
  if (x->type.rank() == 4) return x;
  x = f.Reshape(x, {x->type.shape[0], x->type.shape[1], heads, size});
  return f.Transpose(x, {0, 2, 1, 3});
}

// Repeats every head of k or v `times` times: [h0, h0, h1, h1, ...].
Value* RepeatedHeads(Formula& f, Value* x, int64_t times) {
  if (times == 1) return x;
  const Shape shape = x->type.shape;
  x = f.Reshape(x, {shape[0], shape[1], Expr(1), shape[2], shape[3]});
  x = f.Expand(x, {shape[0], shape[1], Expr(times), shape[2], shape[3]});
  return f.Reshape(x, {shape[0], shape[1] * times, shape[2], shape[3]});
}

Value* PaddedMask(const Node& node, Builder& builder, const Expr& total_length) {
  Value* mask = node.operand(3);
  const Expr& length = mask->type.shape.back();
  if (node.Int("pads_mask") == 0 || length == total_length) return mask;
  const int rank = mask->type.rank();
  Exprs pads(2 * rank, Expr(0));
  pads.back() = total_length - length;
  const bool is_bool = mask->type.dtype == Dtype::kBool;
  Value* fill = builder.Scalar(mask->type.dtype, is_bool ? 0.0 : -kInfinity);
  return builder.Make(OpKind::kPad, {mask, fill},
                      {{"pads", pads}, {"mode", std::string("constant")}});
}

// Whether each key, along the axis of that number, is in front of the padding.
Value* IsNoPadding(Formula& f, const Node& node, const AttentionShape& s, int64_t axis) {
  Value* length = f.Reshape(node.operand(6), {s.batch, Expr(1), Expr(1), Expr(1)});
  return f.Make(OpKind::kLess, {f.AlongAxis(f.Iota(0, s.total_length), axis, 4), length});
}

// The positions of the queries among the keys, moved by `distance`: [q_length, 1], or one such
// column for each batch.
Value* QueryPositions(Formula& f, const Node& node, const AttentionShape& s, int64_t distance) {
  if (node.operand(6) == nullptr || node.operand(4) != nullptr)
    return f.Reshape(f.Iota(s.past_length + distance, s.q_length), {s.q_length, Expr(1)});
  Value* length = f.Reshape(node.operand(6), {s.batch, Expr(1), Expr(1), Expr(1)});
  return f.Add(f.AlongAxis(f.Iota(Expr(distance) - s.q_length, s.q_length), 2, 4), length);
}

// Whether all keys may be hidden from a query.
bool MayHideAll(const Node& node, const AttentionShape& s, const Ranges& ranges) {
  if (node.operand(3) != nullptr || node.operand(6) != nullptr) return true;
  if (!node.Has(kLeftWindow)) return false;
  const Expr first_of_last = s.past_length + s.q_length - 1 - node.Int(kLeftWindow);
  return !ranges.ProvenLess(first_of_last, s.total_length);
}

// The scores with -infinity where mask, causality or padding exclude a key.
Value* MaskedScores(const Node& node, Builder& builder, const AttentionShape& s, Value* scores) {
  Formula f(builder);
  const Dtype dtype = scores->type.dtype;
  Value* never = f.Number(-kInfinity, dtype);
  if (node.operand(3) != nullptr) {
    Value* mask = PaddedMask(node, builder, s.total_length);
    if (mask->type.dtype == Dtype::kBool)
      scores = f.Where(mask, scores, never);
    else
      scores = f.Add(scores, f.Cast(mask, dtype));
  }
  // The keys from one position to another, in relation to that of the query, are seen.
  const auto see = [&](OpKind how, int64_t distance) {
    Value* seen = f.Make(how, {QueryPositions(f, node, s, distance), f.Iota(0, s.total_length)});
    scores = f.Where(seen, scores, never);
  };
  if (node.Int("is_causal") != 0) see(OpKind::kGreaterOrEqual, 0);
  if (node.Has(kLeftWindow)) see(OpKind::kLessOrEqual, -node.Int(kLeftWindow));
  if (node.Has(kRightWindow)) see(OpKind::kGreaterOrEqual, node.Int(kRightWindow));
  // No position is in the padding, so that causality hides that as well.
  const bool ends_at_query = node.Int("is_causal") != 0 && node.operand(4) == nullptr;
  if (node.operand(6) != nullptr && !ends_at_query)
    scores = f.Where(IsNoPadding(f, node, s, 3), scores, never);
  return scores;
}

Result<ValueList> DecomposeAttention(const Node& node, Builder& builder) {
  FUSEC_ASSIGN(const AttentionShape s,
               AttentionShape::Of(OperandTypes(node.operands), node.Int("q_num_heads"),
                                  node.Int("kv_num_heads")));
  Formula f(builder);
  Value* q = Unpacked(f, node.operand(0), s.q_heads, s.head_size);
  Value* key = Unpacked(f, node.operand(1), s.kv_heads, s.head_size);
  Value* value = Unpacked(f, node.operand(2), s.kv_heads, s.v_head_size);
  if (node.operand(4) != nullptr) {
    key = f.Concat({node.operand(4), key}, 2);
    value = f.Concat({node.operand(5), value}, 2);
  }
  // ONNX multiplies q and k by sqrt(scale) each. Multiplying q alone by scale gives the same
  // product and saves a pass over k.
  const double scale = node.Float("scale");
  if (scale != 1) q = f.Mul(q, scale);
  const Dtype q_dtype = q->type.dtype;
  Value* product = f.MatMul(q, RepeatedHeads(f, key, s.heads_per_group), false, true);
  const Dtype dtype =
      node.Get<Dtype>("softmax_dtype") == Dtype::kF64 ? Dtype::kF64 : ComputeDtype(q_dtype);
  Value* capped = f.Cast(product, dtype);
  if (const double cap = node.Float("softcap"); cap != 0) {
    capped = f.Mul(f.Unary(OpKind::kTanh, f.Div(capped, cap)), cap);
  }
  Value* masked = MaskedScores(node, builder, s, capped);
  Value* probabilities = f.Softmax(masked, 3);
  if (MayHideAll(node, s, builder.graph().SymbolRanges())) {
    Value* is_hidden = f.Make(OpKind::kEqual, {f.Reduce(OpKind::kReduceMax, masked, {3}),
                                               f.Number(-kInfinity, masked->type.dtype)});
    probabilities = f.Where(is_hidden, f.Number(0, masked->type.dtype), probabilities);
  }
  Value* weights = f.Cast(probabilities, value->type.dtype);
  Value* shown = value;
  if (node.operand(6) != nullptr)
    shown = f.Where(IsNoPadding(f, node, s, 2), value, f.Number(0, value->type.dtype));
  Value* y = f.Cast(f.MatMul(weights, RepeatedHeads(f, shown, s.heads_per_group)), q_dtype);
  if (s.packed) {
    y = f.Reshape(f.Transpose(y, {0, 2, 1, 3}), {s.batch, s.q_length, s.q_heads * s.v_head_size});
  }
  Value* const stages[] = {product, capped, masked, probabilities};
  return ValueList{y, key, value, f.Cast(stages[node.Int("qk_matmul_output_mode")], q_dtype)};
}

struct AttentionOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"is_causal", "int"},       {"scale", "float"},
      {"softcap", "float"},       {"qk_matmul_output_mode", "int"},
      {"q_num_heads", "int"},     {"kv_num_heads", "int"},
      {"softmax_dtype", "dtype"}, {"pads_mask", "int"},
      {kLeftWindow, "int", true}, {kRightWindow, "int", true}};
  static Result<void> Import(ImportContext& context) { return ImportAttention(context); }
  static InferResult Infer(const InferContext& context) { return InferAttention(context); }
  static Result<void> Reference(ReferenceContext& context) { return ReferenceAttention(context); }
  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    return DecomposeAttention(node, builder);
  }
};

}  // namespace

FUSEC_DEFINE_OP(Attention)

}  // namespace fusec
