// tensor_scatter {axis, circular}: a cache with new rows. Operands are data, rows and start, i64 of
// the first axis: result = data, except that for each b and each s, with j = start[b] + s,
// result[b, .., j, ..] = rows[b, .., s, ..], where j and s are along `axis`. If circular, j is
// taken modulo the length of the axis; else a row behind the last one is an index error. So are
// more new rows than the axis has. A negative start counts from the end.
#include <fmt/format.h>

#include "compiler/import/import_context.h"
#include "compiler/ir/in_place.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/places.h"
#include "compiler/ops/view_support.h"
#include "compiler/reference/reference_context.h"

namespace fusec {
namespace {

// The result as a choice between the data and the rows, for each element.
Value* Chosen(const Node& node, Builder& builder) {
  Formula f(builder);
  Value *data = node.operand(0), *rows = node.operand(1);
  const int64_t axis = node.Int("axis");
  const int rank = data->type.rank();
  const Expr& capacity = data->type.shape[axis];
  const Expr& count = rows->type.shape[axis];
  // Look-ups of places check that the first and the last row have one, or in a circular cache, that
  // there are as many places as new rows.
  Value *all_rows = f.Iota(0, capacity), *before_last = SizeOf(f, count - 1);
  Value* first = f.GatherOrFail(all_rows, node.operand(2));
  if (node.Int("circular") == 0)
    first = f.Sub(f.GatherOrFail(all_rows, f.Add(first, before_last)), before_last);
  else
    first = f.Add(first, f.Sub(f.GatherOrFail(all_rows, before_last), before_last));
  Value* offset = f.Sub(f.AlongAxis(all_rows, axis, rank), f.AlongAxis(first, 0, rank), "row");
  Value* zero = f.Number(0, Dtype::kI64);
  Value* is_before = f.Make(OpKind::kLess, {offset, zero});
  Value* is_new = nullptr;
  if (node.Int("circular") == 0) {
    Value* is_behind = f.Make(OpKind::kGreaterOrEqual, {offset, SizeOf(f, count)});
    is_new = f.Unary(OpKind::kNot, f.Make(OpKind::kOr, {is_before, is_behind}));
  } else {
    offset = f.Where(is_before, f.Add(offset, SizeOf(f, capacity)), offset);
    is_new = f.Make(OpKind::kLess, {offset, SizeOf(f, count)});
  }
  Value* source = f.Expand(f.Where(is_new, offset, zero), data->type.shape);
  Value* updated = f.Make(OpKind::kGatherElements, {rows, source}, {{"axis", axis}});
  return f.Where(is_new, updated, data);
}

// The result as the new rows in the memory of the data. If the first row is outside the axis, all
// rows are, so that none is stored.
Value* ScatteredInPlace(const Node& node, Builder& builder) {
  Formula f(builder);
  Value *data = node.operand(0), *rows = node.operand(1), *start = node.operand(2);
  const int64_t axis = node.Int("axis");
  const bool is_circular = node.Int("circular") != 0;
  const int rank = data->type.rank();
  const Expr& capacity = data->type.shape[axis];
  const Expr& count = rows->type.shape[axis];
  Value *size = SizeOf(f, capacity), *zero = f.Number(0, Dtype::kI64);
  Value* first = f.Where(f.Make(OpKind::kLess, {start, zero}), f.Add(start, size), start);
  Value* is_good = f.Make(OpKind::kAnd, {f.Make(OpKind::kGreaterOrEqual, {first, zero}),
                                         f.Make(OpKind::kLess, {first, size})});
  if (is_circular)
    is_good =
        f.Make(OpKind::kAnd, {is_good, f.Make(OpKind::kLessOrEqual, {SizeOf(f, count), size})});
  first = f.Where(is_good, first, SizeOf(f, is_circular ? capacity * 2 : capacity));
  Value* row = f.Add(f.AlongAxis(first, 0, rank), f.AlongAxis(f.Iota(0, count), axis, rank));
  if (is_circular)
    row = f.Where(f.Make(OpKind::kGreaterOrEqual, {row, size}), f.Sub(row, size), row);
  return f.Make(OpKind::kScatterElements, {data, f.Expand(row, rows->type.shape), rows},
                {{"axis", axis}, {"reduction", std::string("none")}, {kInPlace, int64_t{1}}});
}

}  // namespace

struct TensorScatterOp {
  static constexpr AttributeSpec kAttributes[] = {
      {"axis", "int"}, {"circular", "int"}, {kInPlace, "int", true}};
  static Result<void> Import(ImportContext& context) {
    Value* data = context.input(0);
    FUSEC_ASSIGN(const int64_t axis,
                 ImportAxis(context, context.Int("axis", -2), data->type.rank()));
    const std::string mode = context.String("mode", "linear");
    if (mode != "linear" && mode != "circular")
      return context.Fail("mode is \"" + mode + "\", expected linear or circular");
    Formula f(context);
    Value* start = context.input_count() > 2 ? context.input(2) : nullptr;
    if (start == nullptr) start = f.Expand(f.Number(0, Dtype::kI64), {data->type.shape[0]});
    return context.AddNode(OpKind::kTensorScatter, {data, context.input(1), start},
                           {{"axis", axis}, {"circular", int64_t{mode == "circular"}}});
  }
  static InferResult Infer(const InferContext& context) {
    const TensorType &data = context.operand(0), &rows = context.operand(1),
                     &start = context.operand(2);
    const int64_t axis = context.Int("axis");
    FUSEC_TRY(CheckAxis(axis, data.rank()));
    if (axis == 0) return ModelError("axis is 0, expected an axis behind that of the batch");
    const std::string message = fmt::format("the new rows are {}, but the cache {}, axis {}",
                                            rows.ToString(), data.ToString(), axis);
    if (rows.dtype != data.dtype || rows.rank() != data.rank()) return ModelError(message);
    for (int i = 0; i < data.rank(); ++i) {
      if (i != axis && rows.shape[i] != data.shape[i])
        return SizesDiffer(message, rows.shape[i], data.shape[i]);
    }
    if (start.rank() == 1 && start.shape[0] != data.shape[0]) {
      return SizesDiffer(
          fmt::format("the first rows are {}, but the cache {}", start.ToString(), data.ToString()),
          start.shape[0], data.shape[0]);
    }
    if (start != TensorType{Dtype::kI64, {data.shape[0]}}) {
      return ModelError(fmt::format("the first rows are {}, expected i64[{}]", start.ToString(),
                                    data.shape[0].ToString()));
    }
    return std::vector<TensorType>{data};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const int64_t axis = context.node.Int("axis");
    const bool is_circular = context.node.Int("circular") != 0;
    const ReferenceTensor &rows = context.input(1), &start = context.input(2);
    ReferenceTensor& output = context.output();
    output = context.input(0);
    const int64_t capacity = output.dims[axis];
    Result<void> status;
    int64_t position = 0;
    ForEachIndex(rows.dims, [&](std::vector<int64_t> index) {
      if (!status) return;
      const int64_t b = index[0];
      Result<int64_t> row = context.CheckedIndex(2, b, start.ints[b], capacity);
      if (row && is_circular && rows.dims[axis] > capacity)
        row = context.CheckedIndex(2, b, rows.dims[axis] - 1, capacity);
      if (row && is_circular) *row = (*row + index[axis]) % capacity;
      if (row && !is_circular) row = context.CheckedIndex(2, b, *row + index[axis], capacity);
      if (!row) {
        status = tl::unexpected<Error>(row.error());
        return;
      }
      index[axis] = *row;
      CopyElement(rows, position++, output, output.Position(index));
    });
    return status;
  }
  static std::optional<IndexUse> UseOfIndices(const Node& node, int operand) {
    if (operand != 2) return std::nullopt;
    const int64_t axis = node.Int("axis");
    const Expr& capacity = node.operand(0)->type.shape[axis];
    const bool is_circular = node.Int("circular") != 0;
    return IndexUse{{is_circular ? capacity : capacity - node.operand(1)->type.shape[axis] + 1}};
  }
  static Result<ValueList> Decompose(const Node& node, Builder& builder) {
    return ValueList{node.Has(kInPlace) ? ScatteredInPlace(node, builder) : Chosen(node, builder)};
  }
};
FUSEC_DEFINE_OP(TensorScatter)

}  // namespace fusec
