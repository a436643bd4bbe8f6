// Reductions of bags (ranges) of rows, as nn.EmbeddingBag does after its lookup.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ir/c_text.h"
#include "compiler/ir/sorted_parts.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Clamps the bound of a slice of `count` rows; a negative bound counts from the end.
int64_t SliceBound(int64_t bound, int64_t count) {
  return std::clamp<int64_t>(bound < 0 ? bound + count : bound, 0, count);
}

}  // namespace

// first = starts[b] and last = ends[b] are the bounds of a slice (negative ones count from the end,
// and out-of-range ones are clamped). result[b, c..] = the sum, mean or max, by `mode`, of x[k,
// c..] over first <= k < last. Without ends, a bag ends where the next one starts, and the last bag
// ends with the last row. Integers can only be summed. For an empty bag the sum and mean are 0 and
// the maximum is minus infinity; with `zero_if_empty` the result is 0 if the bounds as given are
// equal.
//
// If the elements of x were sorted by their bags, operand 3 may be the bag of each element before
// that; kernels of few elements read it (region/found_sum.h). It changes no result.
struct SegmentReduceOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"mode", "sum|mean|max"}, {"zero_if_empty", "int"}, {kFindsUpTo, "int", /*optional=*/true}};
  static InferResult Infer(const InferContext& context) {
    const TensorType& x = context.operand(0);
    const TensorType& starts = context.operand(1);
    const TensorType& ends = context.operand(context.has_operand(2) ? 2 : 1);
    const auto& mode = std::get<std::string>(context.attributes.at("mode"));
    const bool are_numbers = IsFloat(x.dtype) || (mode == "sum" && IsInteger(x.dtype));
    if (!are_numbers || x.rank() == 0) {
      return ModelError(fmt::format("the rows are {}, expected {} of rank 1 or more", x.ToString(),
                                    mode == "sum" ? "numbers" : "floats"));
    }
    for (const TensorType* bounds : {&starts, &ends}) {
      if (!IsInteger(bounds->dtype) || bounds->rank() != 1) {
        return ModelError(fmt::format("bounds of the bags are {}, expected integers of rank 1",
                                      bounds->ToString()));
      }
    }
    if (starts.shape != ends.shape) {
      return ModelError(
          fmt::format("bags start at {} but end at {}", starts.ToString(), ends.ToString()));
    }
    if (context.has_operand(3)) {
      const TensorType& places = context.operand(3);
      if (!IsInteger(places.dtype) || places.rank() != 1 || places.shape[0] != x.shape[0]) {
        return ModelError(fmt::format("places are {}, expected integers, one for each of {} rows",
                                      places.ToString(), x.shape[0].ToString()));
      }
    }
    context.Int("zero_if_empty");
    TensorType result = x;
    result.shape[0] = starts.shape[0];
    return std::vector<TensorType>{std::move(result)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const std::string& mode = context.node.Get<std::string>("mode");
    const ReferenceTensor& x = context.input(0);
    const bool zero_if_empty = context.node.Int("zero_if_empty") != 0;
    ReferenceTensor& output = context.output();
    const int64_t columns =
        std::max<int64_t>(1, output.element_count()) / std::max<int64_t>(1, output.dims[0]);
    for (int64_t bag = 0; bag < output.dims[0]; ++bag) {
      const int64_t first = SliceBound(context.input(1).ints[bag], x.dims[0]);
      const int64_t last = SliceBound(End(context, bag), x.dims[0]);
      for (int64_t c = 0; c < columns && output.element_count() > 0; ++c) {
        if (IsInteger(x.dtype)) {
          int64_t& sum = output.ints[bag * columns + c];
          for (int64_t k = first; k < last; ++k) sum += x.ints[k * columns + c];
          continue;
        }
        double folded = mode == "max" ? -kInfinity : 0;
        for (int64_t k = first; k < last; ++k) {
          const double element = x.reals[k * columns + c];
          if (mode != "max")
            folded += element;
          else if (element > folded || std::isnan(element))
            folded = element;
        }
        if (mode == "mean") folded /= static_cast<double>(std::max<int64_t>(last - first, 1));
        const bool is_zero = zero_if_empty && context.input(1).ints[bag] == End(context, bag);
        output.reals[bag * columns + c] = is_zero ? 0 : folded;
      }
    }
    output.WrapInts();
    return {};
  }
  static int64_t End(const ReferenceContext& context, int64_t bag) {
    if (context.has_input(2)) return context.input(2).ints[bag];
    return bag + 1 < context.output().dims[0] ? context.input(1).ints[bag + 1]
                                              : context.input(0).dims[0];
  }
  static Scalar LoadEnd(LowerContext& context, const Scalar& rows) {
    const Expr& bag = context.index()[0];
    if (context.node().operand(2) != nullptr) return context.Load(2, {bag});
    const Expr& bags = context.node().operand(1)->type.shape[0];
    const Scalar next = context.Load(1, {Min(bag + 1, bags - 1, context.ranges())});
    const Scalar number = context.DataFromIndex(bag + 1, Dtype::kI64);
    const Scalar count = context.DataFromIndex(bags, Dtype::kI64);
    return context.Let(
        fmt::format("{} < {} ? {} : {}", number.text(), count.text(), next.text(), rows.text()),
        Dtype::kI64, "next_bag");
  }
  static Scalar Lower(LowerContext& context) {
    const Node& node = context.node();
    const std::string& mode = node.Get<std::string>("mode");
    const Dtype dtype = node.result()->type.dtype;
    const Expr& rows = node.operand(0)->type.shape[0];
    context.Use("slice_bound.cuh");
    const Scalar count = context.DataFromIndex(rows, Dtype::kI64);
    const char* const names[] = {"bag_begin", "bag_end"};
    Scalar bounds[2], given[2];
    for (int side = 0; side < 2; ++side) {
      given[side] = side == 0 ? context.Load(1, {context.index()[0]}) : LoadEnd(context, count);
      bounds[side] =
          context.Let(fmt::format("SliceBound({}, {})", given[side].text(), count.text()),
                      Dtype::kI64, names[side]);
    }
    const auto& [first, last] = bounds;
    const Scalar folded = context.FoldRange(mode == "max" ? OpKind::kReduceMax : OpKind::kReduceSum,
                                            dtype, first, last, rows, [&](const Expr& k) {
                                              Exprs source = context.index();
                                              source[0] = k;
                                              return context.Load(0, source);
                                            });
    std::string text = folded.text();
    if (mode == "mean") {
      text += fmt::format(" / ({})max({} - {}, 1LL)", CTypeName(dtype), last.text(), first.text());
    }
    if (node.Int("zero_if_empty") != 0) {
      text = fmt::format("{} == {} ? {} : {}", given[0].text(), given[1].text(),
                         IsFloat(dtype) ? CLiteral(0.0, dtype) : CLiteral(0, dtype), text);
    }
    return text == folded.text() ? folded : context.Let(text, dtype);
  }
  // A bound may equal the number of rows.
  static std::optional<IndexUse> UseOfIndices(const Node& node, int operand) {
    if (operand == 0 || operand == 3) return std::nullopt;
    return IndexUse{{node.operand(0)->type.shape[0] + 1}, /*ascend=*/true};
  }
};
FUSEC_DEFINE_OP(SegmentReduce)

}  // namespace fusec
