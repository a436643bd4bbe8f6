// Ops of TensorFlow that tf2onnx leaves in a graph because ONNX has none of their name, without a
// domain. onnxruntime refuses them. Keras's exact GELU is written with Erfc, and its Discretization
// layer with Bucketize.
#include <fmt/format.h>

#include "compiler/import/contrib/contrib_ops.h"

namespace fusec {
namespace {

// The number of boundaries that are at most x.
Result<std::string> Bucketize(const ContribNode& node) {
  Statements s;
  if (node.context().Floats("boundaries").empty()) {
    s.Set("output", fmt::format("Cast<to = 6>({})", s.Of("Sub", "input", "input")));
    return s.text();
  }
  const std::string x = IsFloat(node.Type("input").dtype) ? "input" : s.Of("Cast<to = 1>", "input");
  const std::string boundaries =
      s.Of("CastLike", s.Let("Constant<value_floats: floats = @boundaries>()"), x);
  const std::string column = s.Of("Unsqueeze", x, s.Ints({-1}));
  const std::string reached = s.Of("Cast<to = 6>", s.Of("GreaterOrEqual", column, boundaries));
  s.Set("output", fmt::format("ReduceSum<keepdims = 0>({}, {})", reached, s.Ints({-1})));
  return s.text();
}

// The number of a row's sorted elements that are below each value, or that are at most each value.
Result<std::string> SearchSorted(const ContribNode& node) {
  Statements s;
  const std::string row = s.Of("Unsqueeze", "sorted", s.Ints({1}));
  const std::string value = s.Of("Unsqueeze", "values", s.Ints({2}));
  const bool is_lower = node.context().onnx_op() == "LowerBound";
  const std::string before = s.Of(is_lower ? "Less" : "LessOrEqual", row, value);
  const std::string counted =
      s.Of(node.Int("out_type", 6) == 7 ? "Cast<to = 7>" : "Cast<to = 6>", before);
  s.Set("output", fmt::format("ReduceSum<keepdims = 0>({}, {})", counted, s.Ints({2})));
  return s.text();
}

// Reads the bytes as another type of the same size; `type` is a number of ONNX.
Result<std::string> Bitcast(const ContribNode& node) {
  return fmt::format("output = BitCast<to = {}>(input)", node.Int("type"));
}

// `formula` where `zero` is not 0, and 0 where it is, whatever the formula is there.
std::string UnlessZero(const std::string& zero, const std::string& formula) {
  return fmt::format(
      "none = Constant<value_float = 0.0>() nothing = CastLike(none, {0}) "
      "is_zero = Equal({0}, nothing) result = {1} z = Where(is_zero, nothing, result)",
      zero, formula);
}
Result<std::string> WithoutNan(const ContribNode& node) {
  const std::string& op = node.context().onnx_op();
  if (op == "MulNoNan") return UnlessZero("y", "Mul(x, y)");
  if (op == "Xdivy") return UnlessZero("x", "Div(x, y)");
  return "logarithm = Log(y) " + UnlessZero("x", "Mul(x, logarithm)");  // Xlogy
}

// How many segments to make. If it is run-time data, as the greatest id and one is, at most as many
// as there are ids: with a higher id the run fails.
Result<std::string> SegmentsOf(const ContribNode& node) {
  if (node.context().SymbolicInts(0, "segments")) return "output = Identity(segments)";
  return "one = Constant<value_ints = [1]>() none = Constant<value_ints = [0]>() "
         "count = Size(ids) most = Reshape(count, one) fewer = Min(segments, most) "
         "output = Max(fewer, none)";
}

// Rows of x, each of which belongs to the segment that `ids` names: the rows of a segment are
// combined with each other and with `neutral`.
constexpr char kSegmentReduce[] =
    "columns = Shape<start = 1>(x) shape = Concat<axis = 0>(segments, columns) "
    "data = Expand(neutral, shape) last = Constant<value_ints = [-1]>() "
    "segment_ids = Unsqueeze(ids, last) "
    "output = ScatterND<reduction: string = @reduction>(data, segment_ids, x)";

// How many ids name each segment, or `of_empty` if none does.
constexpr char kSegmentSizes[] =
    "zero = Constant<value = int64[1] {0}>() zeros = Expand(zero, segments) "
    "one = Constant<value = int64[1] {1}>() number = Shape(ids) ones = Expand(one, number) "
    "last = Constant<value_ints = [-1]>() segment_ids = Unsqueeze(ids, last) "
    "sizes = ScatterND<reduction = \"add\">(zeros, segment_ids, ones) is_empty = Equal(sizes, "
    "zero) "
    "filler = Constant<value_int: int = @of_empty>() output = Where(is_empty, filler, sizes)";

// Whether fewer than k predictions of a row are greater than that of its target.
constexpr char kInTopK[] =
    "one = Constant<value_ints = [1]>() wide = Cast<to = 7>(targets) column = Unsqueeze(wide, one) "
    "own = GatherElements<axis = 1>(predictions, column) greater = Greater(predictions, own) "
    "better = Cast<to = 7>(greater) count = ReduceSum<keepdims = 0>(better, one) "
    "most = Cast<to = 7>(k) precision = Less(count, most)";

constexpr ContribOp kOps[] = {
    {"Bitcast <type, T> (input) => (output)", 1, nullptr, &Bitcast},
    {"BitwiseAnd <T> (x, y) => (z)", 2, "z = BitwiseAnd(x, y)"},
    {"BitwiseOr <T> (x, y) => (z)", 2, "z = BitwiseOr(x, y)"},
    {"BitwiseXor <T> (x, y) => (z)", 2, "z = BitwiseXor(x, y)"},
    {"Bucketize <boundaries, T> (input) => (output)", 1, nullptr, &Bucketize},
    {"Cumprod <exclusive: int = 0, reverse: int = 0, T, Tidx> (x, axis) => (y)", 2,
     "y = CumProd<exclusive: int = @exclusive, reverse: int = @reverse>(x, axis)"},
    {"Erfc <T> (x) => (y)", 1, nullptr, nullptr, OpKind::kErfc},
    {"EuclideanNorm <keep_dims: int = 0, T, Tidx> (input, axes) => (output)", 2,
     "wide = Cast<to = 7>(axes) flat = Constant<value_ints = [-1]>() list = Reshape(wide, flat) "
     "output = ReduceL2<keepdims: int = @keep_dims>(input, list)"},
    {"Expm1 <T> (x) => (y)", 1, nullptr, nullptr, OpKind::kExpm1},
    {"InTopKV2 <T> (predictions, targets, k) => (precision)", 3, kInTopK},
    {"Inv <T> (x) => (y)", 1, "y = Reciprocal(x)"},
    {"Invert <T> (x) => (y)", 1, "y = BitwiseNot(x)"},
    {"L2Loss <T> (t) => (output)", 1,
     "squares = ReduceSumSquare<keepdims = 0>(t) two = Constant<value_float = 2.0>() "
     "of_type = CastLike(two, t) output = Div(squares, of_type)"},
    {"Log1p <T> (x) => (y)", 1, nullptr, nullptr, OpKind::kLog1p},
    {"LowerBound <out_type: int = 6, T> (sorted, values) => (output)", 2, nullptr, &SearchSorted},
    {"MulNoNan <T> (x, y) => (z)", 2, nullptr, &WithoutNan},
    {"SegmentReduce <reduction> (x, neutral, ids, segments) => (output)", 4, kSegmentReduce},
    {"SegmentSizes <of_empty> (ids, segments) => (output)", 2, kSegmentSizes},
    {"SegmentsOf (segments, ids) => (output)", 2, nullptr, &SegmentsOf},
    {"TruncateMod <T> (x, y) => (z)", 2, "z = Mod<fmod = 1>(x, y)"},
    {"UpperBound <out_type: int = 6, T> (sorted, values) => (output)", 2, nullptr, &SearchSorted},
    {"Xdivy <T> (x, y) => (z)", 2, nullptr, &WithoutNan},
    {"Xlogy <T> (x, y) => (z)", 2, nullptr, &WithoutNan},
};

}  // namespace

ArrayRef<ContribOp> TensorFlowOps() { return kOps; }

}  // namespace fusec
