// The ops of a radix sort (passes/sort_by_digits.h): they put a vector of integers that are not
// negative into the order of one of their digits. Digit d has the `bits` bits from bit `shift` on.
#include <fmt/format.h>

#include "compiler/ir/sorted_parts.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

constexpr AttributeSpec kDigitAttributes[] = {{"shift", "int"}, {"bits", "int"}, {"tile", "int"}};

// The vector is cut into tiles of `tile` numbers.
struct Digits {
  int64_t shift, bits, tile;

  explicit Digits(const Node& node)
      : shift(node.Int("shift")), bits(node.Int("bits")), tile(node.Int("tile")) {}
  int64_t Of(int64_t number) const { return (number >> shift) & ((int64_t{1} << bits) - 1); }
};

// The type of the counts of the digits of a vector.
Result<TensorType> CountsOf(const InferContext& context) {
  constexpr int64_t kMostShift = 30;
  const TensorType& numbers = context.operand(0);
  const int64_t shift = context.Int("shift"), bits = context.Int("bits");
  const int64_t tile = context.Int("tile");
  if (numbers.rank() != 1 || numbers.dtype != Dtype::kI32)
    return ModelError("the numbers are " + numbers.ToString() + ", expected i32[n]");
  if (bits < 1 || bits > kMostDigitBits || shift < 0 || shift > kMostShift)
    return ModelError(fmt::format("no digit has {} bits from bit {} on", bits, shift));
  if (tile < 1 || tile > kMostDigitTile)
    return ModelError(fmt::format("tiles have {} numbers, expected 1 to {}", tile, kMostDigitTile));
  const Expr tiles = CeilDiv(numbers.shape[0], tile, context.ranges);
  return TensorType{Dtype::kI32, {int64_t{1} << bits, tiles}};
}

}  // namespace

// How often each digit occurs in each tile: [digits, tiles].
struct DigitCountsOp {
  static constexpr const auto& kAttributes = kDigitAttributes;
  static InferResult Infer(const InferContext& context) {
    FUSEC_ASSIGN(TensorType counts, CountsOf(context));
    return std::vector<TensorType>{std::move(counts)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& numbers = context.input(0);
    const Digits digits(context.node);
    ReferenceTensor& counts = context.output();
    std::fill(counts.ints.begin(), counts.ints.end(), 0);
    for (int64_t i = 0; i < numbers.dims[0]; ++i)
      ++counts.ints[digits.Of(numbers.ints[i]) * counts.dims[1] + i / digits.tile];
    return {};
  }
};
FUSEC_DEFINE_OP(DigitCounts)

// Operands: the numbers, a vector that moves with them, and where those of each tile that have a
// digit begin in the results, [digits, tiles] (others than DigitCounts gives lose numbers).
struct OrderByDigitOp {
  static constexpr const auto& kAttributes = kDigitAttributes;
  static InferResult Infer(const InferContext& context) {
    const TensorType &numbers = context.operand(0), &moving = context.operand(1);
    FUSEC_ASSIGN(const TensorType counts, CountsOf(context));
    if (moving.shape != numbers.shape || moving.dtype != Dtype::kI32 ||
        context.operand(2).shape != counts.shape || context.operand(2).dtype != Dtype::kI32) {
      return ModelError(fmt::format("{} and {} do not belong to the numbers {}", moving.ToString(),
                                    context.operand(2).ToString(), numbers.ToString()));
    }
    return std::vector<TensorType>{numbers, moving};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor &numbers = context.input(0), &places = context.input(2);
    const Digits digits(context.node);
    const int64_t count = numbers.dims[0];
    std::vector<int64_t> next(places.ints.begin(), places.ints.end());
    for (int64_t i = 0; i < count; ++i) {
      const int64_t to = next[digits.Of(numbers.ints[i]) * places.dims[1] + i / digits.tile]++;
      if (to < 0 || to >= count) continue;
      CopyElement(numbers, i, context.output(0), to);
      CopyElement(context.input(1), i, context.output(1), to);
    }
    return {};
  }
};
FUSEC_DEFINE_OP(OrderByDigit)

}  // namespace fusec
