// Ops on tensors: shapes, hashes, distances.
#include <fmt/format.h>

#include "compiler/import/contrib/contrib_ops.h"

namespace fusec {
namespace {

// MurmurHash3_x86_32 of the bytes of each element (Appleby, smhasher, public domain): an element of
// 4 bytes is one block, and one of 8 bytes is two, the low word first.
Result<std::string> MurmurHash3(const ContribNode& node) {
  const TensorType& type = node.Type("X");
  const int bytes = DtypeBytes(type.dtype);
  if (bytes != 4 && bytes != 8)
    return node.Fail(fmt::format("X is {}, expected elements of 4 or 8 bytes", type.ToString()));
  Statements s;
  const auto word = [&](uint32_t value) {
    return s.Let(fmt::format("Constant<value = uint32 {{{}}}>()", value));
  };
  const auto shifted_right = [&](const std::string& x, uint32_t bits) {
    return s.Of("BitShift<direction = \"RIGHT\">", x, word(bits));
  };
  const auto rotated = [&](const std::string& x, uint32_t bits) {
    const std::string left = s.Of("BitShift<direction = \"LEFT\">", x, word(bits));
    return s.Of("BitwiseOr", left, shifted_right(x, 32 - bits));
  };
  std::vector<std::string> blocks;
  if (bytes == 4) {
    blocks = {s.Let("BitCast<to = 12>(X)")};
  } else {
    const std::string bits = s.Let("BitCast<to = 13>(X)");
    const std::string low_bits = s.Let("Constant<value = uint64 {4294967295}>()");
    const std::string word_bits = s.Let("Constant<value = uint64 {32}>()");
    const std::string low = s.Of("BitwiseAnd", bits, low_bits);
    const std::string high = s.Of("BitShift<direction = \"RIGHT\">", bits, word_bits);
    for (const std::string& half : {low, high}) blocks.push_back(s.Of("Cast<to = 12>", half));
  }
  std::string hash = word(static_cast<uint32_t>(node.Int("seed")));
  for (const std::string& block : blocks) {
    const std::string k = s.Of("Mul", block, word(0xcc9e2d51));
    hash = s.Of("BitwiseXor", hash, s.Of("Mul", rotated(k, 15), word(0x1b873593)));
    hash = s.Of("Add", s.Of("Mul", rotated(hash, 13), word(5)), word(0xe6546b64));
  }
  hash = s.Of("BitwiseXor", hash, word(static_cast<uint32_t>(bytes)));
  hash = s.Of("BitwiseXor", hash, shifted_right(hash, 16));
  hash = s.Of("Mul", hash, word(0x85ebca6b));
  hash = s.Of("BitwiseXor", hash, shifted_right(hash, 13));
  hash = s.Of("Mul", hash, word(0xc2b2ae35));
  hash = s.Of("BitwiseXor", hash, shifted_right(hash, 16));
  s.Set("Y", fmt::format("BitCast<to = {}>({})", node.Int("positive", 1) != 0 ? 12 : 6, hash));
  return s.text();
}

Result<std::string> PairwiseDistances(const ContribNode& node) {
  const std::string metric = node.context().String("metric", "sqeuclidean");
  if (metric != "euclidean" && metric != "sqeuclidean")
    return node.Fail("metric \"" + metric + "\" is not supported");
  Statements s;
  const std::string a = s.Of("Unsqueeze", "A", s.Ints({1}));
  const std::string difference = s.Of("Sub", a, "B");
  const std::string square = s.Of("Mul", difference, difference);
  const std::string sum = s.Of("ReduceSum<keepdims = 0>", square, s.Ints({2}));
  s.Set("C", fmt::format("{}({})", metric == "euclidean" ? "Sqrt" : "Identity", sum));
  return s.text();
}

// Complex numbers are pairs along the last axis.
Result<std::string> ComplexProduct(const ContribNode& node) {
  const bool conjugates = node.context().onnx_op() == "ComplexMulConj";
  Statements s;
  const auto part = [&](const char* x, int i) { return s.Of("Gather<axis = -1>", x, s.Int(i)); };
  const std::string a = part("A", 0), b = part("A", 1), c = part("B", 0), d = part("B", 1);
  const std::string real = s.Of(conjugates ? "Add" : "Sub", s.Of("Mul", a, c), s.Of("Mul", b, d));
  const std::string imaginary =
      s.Of(conjugates ? "Sub" : "Add", s.Of("Mul", b, c), s.Of("Mul", a, d));
  const std::string axis = s.Ints({-1});
  const std::string x = s.Of("Unsqueeze", real, axis);
  const std::string y = s.Of("Unsqueeze", imaginary, axis);
  s.Set("C", fmt::format("Concat<axis = -1>({}, {})", x, y));
  return s.text();
}

Result<std::string> ReduceSumInteger(const ContribNode& node) {
  Statements s;
  const std::string wide =
      s.Let(node.Type("data").dtype == Dtype::kU8 ? "Cast<to = 12>(data)" : "Cast<to = 6>(data)");
  const std::string axes = s.Ints(node.context().Ints("axes"));
  s.Set("reduced", fmt::format("ReduceSum<keepdims: int = @keepdims>({}, {})", wide, axes));
  return s.text();
}

Result<std::string> Range(const ContribNode& node) {
  Statements s;
  const std::string step = node.Has("delta") ? "delta" : s.Number(1, "start");
  s.Set("Y", fmt::format("Range(start, limit, {})", step));
  return s.text();
}

constexpr ContribOp kOps[] = {
    {"CDist <metric> (A, B) => (C)", 2, nullptr, &PairwiseDistances},
    {"ComplexMul (A, B) => (C)", 2, nullptr, &ComplexProduct},
    {"ComplexMulConj (A, B) => (C)", 2, nullptr, &ComplexProduct},
    {"ExpandDims (X, axis) => (Y)", 2,
     "one = Constant<value_ints = [-1]>() wide = Cast<to = 7>(axis) axes = Reshape(wide, one) "
     "Y = Unsqueeze(X, axes)"},
    {"GatherND (data, indices) => (output)", 2, "output = GatherND(data, indices)"},
    {"MurmurHash3 <positive: int = 1, seed: int = 0> (X) => (Y)", 1, nullptr, &MurmurHash3},
    {"Pad <mode: string = \"constant\"> (data, pads, value) => (output)", 2,
     "output = Pad<mode: string = @mode>(data, pads, value)"},
    {"Range (start, limit, delta) => (Y)", 2, nullptr, &Range},
    {"ReduceSumInteger <axes, keepdims: int = 1> (data) => (reduced)", 1, nullptr,
     &ReduceSumInteger},
    {"Trilu <upper: int = 1> (X, k) => (Y)", 1, "Y = Trilu<upper: int = @upper>(X, k)"},
};

}  // namespace

ArrayRef<ContribOp> ContribTensors() { return kOps; }

}  // namespace fusec
