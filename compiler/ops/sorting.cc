// Ops that sort lines of a tensor, and that search in sorted lines.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/ir/sorted_parts.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/line_places.h"
#include "compiler/ops/places.h"
#include "compiler/ops/run_time_bound.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

// a < b in the order of the dtype, with NaN above everything.
bool IsLess(const ReferenceTensor& tensor, int64_t a, int64_t b) {
  if (IsFloat(tensor.dtype)) {
    const double x = tensor.reals[a], y = tensor.reals[b];
    return std::isnan(y) ? !std::isnan(x) : x < y;
  }
  if (tensor.dtype == Dtype::kU64) {
    return static_cast<uint64_t>(tensor.ints[a]) < static_cast<uint64_t>(tensor.ints[b]);
  }
  return tensor.ints[a] < tensor.ints[b];
}

// Sorts `places` of a line, of which element j is at first + j * stride.
void SortPlaces(std::vector<int64_t>& places, const ReferenceTensor& tensor, int64_t first,
                int64_t stride, bool largest) {
  std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
    const int64_t at_a = first + a * stride, at_b = first + b * stride;
    return largest ? IsLess(tensor, at_b, at_a) : IsLess(tensor, at_a, at_b);
  });
}

}  // namespace

// The k largest (or smallest) elements along `axis`, in order, and their indices. Of equal elements
// the lower index comes first; NaN counts as larger than everything. With sorted = 0 ONNX allows
// any order; the result is sorted all the same. With `part`, the k first of each part of that many
// elements; where a part has fewer than k, the values are 0 and the indices -1.
struct TopKOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"axis", "int"}, {"k", "dims"}, {"largest", "int"}, {"sorted", "int"},
      {kPart, "int", true}, {kBelow, "dims", true}};
  static Result<void> Import(ImportContext& context) {
    FUSEC_ASSIGN(const int64_t axis,
                 ImportAxis(context, context.Int("axis", -1), context.input(0)->type.rank()));
    const int64_t largest = context.Int("largest", 1) != 0 ? 1 : 0;
    const int64_t sorted = context.Int("sorted", 1) != 0 ? 1 : 0;
    Attributes attributes = {{"axis", axis}, {"largest", largest}, {"sorted", sorted}};
    if (context.Has("k")) {  // before opset 10
      attributes["k"] = Exprs{context.Int("k", 0)};
    } else if (Result<Exprs> k = context.SymbolicInts(1, "k")) {
      attributes["k"] = *std::move(k);
    } else {
      return ImportFirst(context, std::move(attributes));
    }
    return context.AddNode(OpKind::kTopK, {context.input(0)}, std::move(attributes));
  }
  // TopK whose k is run-time data: a TopK of the largest possible k (the whole axis, unless the ops
  // that compute k give a bound), of which the first k elements are taken. If k exceeds that or is
  // negative, the indices of the taken elements are out of range, which fails the run.
  static Result<void> ImportFirst(ImportContext& context, Attributes attributes) {
    const int64_t axis = std::get<int64_t>(attributes["axis"]);
    const Expr& rows = context.input(0)->type.shape[axis];
    Value* k = context.input(1);
    if (!k->type.ElementCount().IsConstant(1)) {
      return context.Fail("k is " + k->type.ToString() + ", expected 1 element");
    }
    const std::optional<Expr> bound = UpperBound(k, context), least = LowerBound(k, context);
    const Ranges& ranges = context.ranges();
    const bool is_bound = bound && ranges.ProvenNonNegative(rows - *bound);
    const Expr most = is_bound ? *bound : rows;
    attributes["k"] = Exprs{most};
    Formula f(context);
    Value* count = f.Cast(f.Reshape(k, {}), Dtype::kI64);
    Value* zero = f.Number(0, Dtype::kI64);
    Value* is_wrong = f.Make(OpKind::kOr, {f.Make(OpKind::kLess, {count, zero}),
                                           f.Make(OpKind::kGreater, {count, SizeOf(f, most)})});
    const bool is_known = is_bound && least && ranges.ProvenNonNegative(*least);
    if (!is_known) count = f.Where(is_wrong, SizeOf(f, most), count);
    FUSEC_ASSIGN(Node * all,
                 context.builder().Add(OpKind::kTopK, {context.input(0)}, std::move(attributes)));
    const Expr length = context.RunTimeCount(f.Reshape(count, {1}), 0, most);
    Value* place = f.Iota(0, length);
    if (!is_known) {
      place =
          f.Make(OpKind::kWhere, {is_wrong, SizeOf(f, most), place}, {}, "places_by_" + k->name);
    }
    const auto first = [&](int result) {
      Value* sorted = all->result(result);
      return is_known ? f.Gather(sorted, place, axis) : f.GatherOrFail(sorted, place, axis);
    };
    return f.Finish({first(0), first(1)});
  }
  static InferResult Infer(const InferContext& context) {
    TensorType values = context.operand(0);
    const int64_t axis = context.Int("axis");
    FUSEC_TRY(CheckAxis(axis, values.rank()));
    FUSEC_TRY(CheckCount("k", context.Dims("k").size(), 1));
    const Expr& k = context.Dims("k")[0];
    if (context.attributes.count(kPart)) return InferParts(std::move(values), axis, k, context);
    if (!context.ranges.ProvenNonNegative(k) ||
        !context.ranges.ProvenNonNegative(values.shape[axis] - k)) {
      return SizeTooSmall(fmt::format("k is {}, but axis {} is only known to have {} elements",
                                      k.ToString(), axis, values.shape[axis].ToString()),
                          k, values.shape[axis]);
    }
    values.shape[axis] = k;
    TensorType indices{Dtype::kI64, values.shape};
    return std::vector<TensorType>{std::move(values), std::move(indices)};
  }
  static InferResult InferParts(TensorType values, int64_t axis, const Expr& k,
                                const InferContext& context) {
    const int64_t part = context.Int(kPart);
    if (part < 1 || !context.ranges.ProvenNonNegative(Expr(part) - k)) {
      return ModelError(fmt::format("k is {}, but parts have {} elements", k.ToString(), part));
    }
    values.shape[axis] = CeilDiv(values.shape[axis], part, context.ranges) * k;
    TensorType indices{Dtype::kI64, values.shape};
    return std::vector<TensorType>{std::move(values), std::move(indices)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& input = context.input(0);
    const Node& node = context.node;
    const int64_t axis = node.Int("axis");
    const bool largest = node.Int("largest") != 0;
    const LinePlaces from(input.dims, axis);
    const LinePlaces to(context.output(0).dims, axis);
    const int64_t part = node.Has(kPart) ? node.Int(kPart) : std::max<int64_t>(from.length, 1);
    const int64_t parts = std::max<int64_t>((from.length + part - 1) / part, 1);
    const int64_t kept = to.length / parts;
    for (size_t line = 0; line < to.starts.size(); ++line) {
      for (int64_t number = 0; number < parts; ++number) {
        std::vector<int64_t> order(std::min(part, from.length - number * part));
        std::iota(order.begin(), order.end(), number * part);
        SortPlaces(order, input, from.starts[line], from.stride, largest);
        for (int64_t j = 0; j < kept; ++j) {
          const int64_t place = to.starts[line] + (number * kept + j) * to.stride;
          const bool is_there = j < static_cast<int64_t>(order.size());
          context.output(1).ints[place] = is_there ? order[j] : -1;
          if (is_there) {
            CopyElement(input, from.starts[line] + order[j] * from.stride, context.output(0),
                        place);
          }
        }
      }
    }
    return {};
  }
  static std::optional<Expr> OperandLimit(const LimitContext& context) { return context.limit; }
};
FUSEC_DEFINE_OP(TopK)

// Puts together what a top_k with `part` makes of lines of `length` elements, `kept` of each part:
// the k first of all, and their indices. With `group`, it puts the parts of each group together,
// all of whose elements are kept; each element stays among those of its group.
struct MergeSortedOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"axis", "int"}, {kPart, "int"},     {"kept", "dims"},     {"length", "dims"},
      {"k", "dims"},   {"largest", "int"}, {kGroup, "int", true}};
  static InferResult Infer(const InferContext& context) {
    TensorType values = context.operand(0);
    const int64_t axis = context.Int("axis"), part = context.Int(kPart);
    FUSEC_TRY(CheckAxis(axis, values.rank()));
    for (const char* size : {"kept", "length", "k"})
      FUSEC_TRY(CheckCount(size, context.Dims(size).size(), 1));
    if (part < 1) return ModelError(fmt::format("parts have {} elements", part));
    const Expr& length = context.Dims("length")[0];
    const Expr parts = CeilDiv(length, part, context.ranges);
    const Expr& k = context.Dims("k")[0];
    const Expr& kept = context.Dims("kept")[0];
    context.Int("largest");
    // Behind merged groups, nothing fills up the last part.
    const bool is_whole =
        kept.IsConstant(part) && context.ranges.ProvenNonNegative(values.shape[axis] - length);
    if (values.shape[axis] != parts * kept && !is_whole) {
      return ModelError(fmt::format("the values are {}, expected {} parts of {} elements",
                                    values.ToString(), parts.ToString(),
                                    context.Dims("kept")[0].ToString()));
    }
    if (context.operand(1).shape != values.shape || context.operand(1).dtype != Dtype::kI64) {
      return ModelError(fmt::format("the indices are {}, but the values {}",
                                    context.operand(1).ToString(), values.ToString()));
    }
    if (context.attributes.count(kGroup) == 0) {
      values.shape[axis] = k;
    } else if (context.Int(kGroup) < 2 || !kept.IsConstant(part)) {
      return ModelError(fmt::format("groups of {} parts keep {} of {} elements each",
                                    context.Int(kGroup), kept.ToString(), part));
    }
    TensorType indices{Dtype::kI64, values.shape};
    return std::vector<TensorType>{std::move(values), std::move(indices)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor &values = context.input(0), &indices = context.input(1);
    const Node& node = context.node;
    const int64_t axis = node.Int("axis"), part = node.Int(kPart);
    const LinePlaces from(values.dims, axis);
    const LinePlaces to(context.output(0).dims, axis);
    const int64_t length = *node.Get<Exprs>("length")[0].Evaluate(context.symbols);
    const int64_t kept = *node.Get<Exprs>("kept")[0].Evaluate(context.symbols);
    const int64_t parts = (length + part - 1) / part;
    const int64_t group = node.Has(kGroup) ? node.Int(kGroup) : std::max<int64_t>(parts, 1);
    for (size_t line = 0; line < to.starts.size(); ++line) {
      for (int64_t first = 0; first < parts; first += group) {
        std::vector<int64_t> places;
        for (int64_t number = first; number < std::min(first + group, parts); ++number) {
          const int64_t there = std::min(kept, std::min(part, length - number * part));
          for (int64_t j = 0; j < there; ++j) places.push_back(number * kept + j);
        }
        SortPlaces(places, values, from.starts[line], from.stride, node.Int("largest") != 0);
        const int64_t begin = first * kept;
        const int64_t taken = std::min<int64_t>(places.size(), to.length - begin);
        for (int64_t j = 0; j < taken; ++j) {
          const int64_t place = to.starts[line] + (begin + j) * to.stride;
          const int64_t source = from.starts[line] + places[j] * from.stride;
          CopyElement(values, source, context.output(0), place);
          context.output(1).ints[place] = indices.ints[source];
        }
      }
      // As in the parts, nothing is behind the last element.
      for (int64_t j = node.Has(kGroup) ? length : to.length; j < to.length; ++j)
        context.output(1).ints[to.starts[line] + j * to.stride] = -1;
    }
    return {};
  }
};
FUSEC_DEFINE_OP(MergeSorted)

// Where each of the numbers 0..rows would go in lines that ascend along `axis`: result[.., r] = how
// many elements of the line are below r.
struct LowerBoundsOp {
  static constexpr AttributeSpec kAttributes[] = {{"axis", "int"}, {"rows", "dims"}};
  static InferResult Infer(const InferContext& context) {
    TensorType result = context.operand(0);
    FUSEC_TRY(CheckAxis(context.Int("axis"), result.rank()));
    FUSEC_TRY(CheckCount("rows", context.Dims("rows").size(), 1));
    if (!IsInteger(result.dtype)) {
      return ModelError(fmt::format("the lines are {}, expected integers", result.ToString()));
    }
    result.shape[context.Int("axis")] = context.Dims("rows")[0] + 1;
    result.dtype = Dtype::kI64;
    return std::vector<TensorType>{std::move(result)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& sorted = context.input(0);
    const int64_t axis = context.node.Int("axis");
    const LinePlaces from(sorted.dims, axis);
    const LinePlaces to(context.output().dims, axis);
    for (size_t line = 0; line < to.starts.size(); ++line) {
      int64_t below = 0;
      for (int64_t row = 0; row < to.length; ++row) {
        while (below < from.length && sorted.ints[from.starts[line] + below * from.stride] < row)
          ++below;
        context.output().ints[to.starts[line] + row * to.stride] = below;
      }
    }
    return {};
  }
};
FUSEC_DEFINE_OP(LowerBounds)

}  // namespace fusec
