// Ops whose elements must be processed in order: cumsum, cumprod, scatter.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/ir/element_sources.h"
#include "compiler/ir/in_place.h"
#include "compiler/ir/sorted_parts.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/fitting_sizes.h"
#include "compiler/ops/formula.h"
#include "compiler/ops/line_places.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

double ReduceReal(const std::string& reduction, double old, double update) {
  if (reduction == "add") return old + update;
  if (reduction == "mul") return old * update;
  if (reduction == "none" || std::isnan(update)) return update;
  if (std::isnan(old)) return old;
  return reduction == "max" ? std::max(old, update) : std::min(old, update);
}

int64_t ReduceInt(const std::string& reduction, Dtype dtype, int64_t old, int64_t update) {
  if (reduction == "none") return update;
  if (dtype == Dtype::kBool) {  // add is "or", mul is "and"
    return reduction == "add" || reduction == "max" ? (old | update) : (old & update);
  }
  if (reduction == "add") return old + update;
  if (reduction == "mul") return old * update;
  const bool update_is_more = dtype == Dtype::kU64
                                  ? static_cast<uint64_t>(update) > static_cast<uint64_t>(old)
                                  : update > old;
  return update_is_more == (reduction == "max") ? update : old;
}

void ReduceInto(ReferenceTensor& output, int64_t place, const ReferenceTensor& updates, int64_t i,
                const std::string& reduction) {
  if (IsFloat(output.dtype)) {
    output.reals[place] = ReduceReal(reduction, output.reals[place], updates.reals[i]);
  } else {
    output.ints[place] = ReduceInt(reduction, output.dtype, output.ints[place], updates.ints[i]);
  }
}

// Element `index` of a value that views make from 0, 1, 2, ...; nullopt for other values.
std::optional<Expr> NumberAt(const Value* value, Exprs index, const Ranges& ranges) {
  for (const Node* node = value->producer; node != nullptr; node = value->producer) {
    if (node->kind == OpKind::kRange) {
      const bool counts =
          IsInteger(value->type.dtype) && node->Int("start") == 0 && node->Int("delta") == 1;
      return counts ? std::optional(index[0]) : std::nullopt;
    }
    if (GetOpDef(node->kind).op_class != OpClass::kView) break;
    const auto sources = ElementSources(*node, 0, index, ranges, NoIndexIsKnown);
    if (!sources || sources->size() != 1 || (*sources)[0].operand < 0) break;
    value = node->operand((*sources)[0].operand);
    index = (*sources)[0].index;
  }
  return std::nullopt;
}

// If a scatter_nd into a matrix has first coordinates 0, 0, .., 1, 1, .. for all rows, as
// index_put_((row, column), x) has, the number of updates per row; else nullopt.
std::optional<Expr> UpdatesPerRow(const ImportContext& context) {
  const Shape& data = context.input(0)->type.shape;
  const Value* indices = context.input(1);
  const Shape& shape = indices->type.shape;
  if (data.size() != 2 || shape.size() < 2 || !shape.back().IsConstant(2)) return std::nullopt;
  Ranges ranges = context.ranges();
  const Shape tuples(shape.begin(), shape.end() - 1);
  const Expr count = Product(tuples);
  const Expr per_row = FloorDiv(count, data[0], ranges);
  if (per_row * data[0] != count || !ranges.ProvenNonNegative(per_row - 1)) return std::nullopt;
  const Expr update = AnyIndex({count}, ranges)[0];
  Exprs index = Delinearize(update, tuples, ranges);
  index.push_back(Expr(0));
  const std::optional<Expr> row = NumberAt(indices, index, ranges);
  if (!row || *row != FloorDiv(update, per_row, ranges)) return std::nullopt;
  return per_row;
}

// Imports such a scatter as a scatter_elements, whose rows are independent.
Result<void> ScatterInRows(ImportContext& context, const Expr& per_row) {
  Value* data = context.input(0);
  Value* indices = context.input(1);
  const Shape rows = {data->type.shape[0], per_row};
  Formula f(context);
  Value* columns =
      f.Slice(indices, indices->type.rank() - 1, 1, 1, /*step=*/1, indices->name + "_columns");
  return f.Finish({f.Make(
      OpKind::kScatterElements, {data, f.Reshape(columns, rows), f.Reshape(context.input(2), rows)},
      {{"axis", int64_t{1}}, {"reduction", context.String("reduction", "none")}})});
}

Result<void> CheckScatter(const InferContext& context) {
  const TensorType& data = context.operand(0);
  const TensorType& indices = context.operand(1);
  const TensorType& updates = context.operand(2);
  if (!IsInteger(indices.dtype)) {
    return ModelError(fmt::format("the indices are {}, expected integers", indices.ToString()));
  }
  if (updates.dtype != data.dtype) {
    return ModelError(fmt::format("the updates are {}, expected dtype {}", updates.ToString(),
                                  DtypeName(data.dtype)));
  }
  return {};
}

}  // namespace

// result[j] = the sum, or the product, of operand[0..j] along `axis`. `exclusive` leaves out
// element j itself; `reverse` goes from the end.
template <OpKind kKind>
struct RunningFold {
  static constexpr bool kIsSum = kKind == OpKind::kCumSum;
  static constexpr AttributeSpec kAttributes[] = {
      {"axis", "int"}, {"exclusive", "int"}, {"reverse", "int"}};
  static Result<void> Import(ImportContext& context) {
    FUSEC_ASSIGN(const std::vector<int64_t> axes, context.ConstantInts(1, "axis"));
    if (axes.size() != 1) {
      return context.Fail(fmt::format("axis has {} values, expected 1", axes.size()));
    }
    FUSEC_ASSIGN(const int64_t axis, ImportAxis(context, axes[0], context.input(0)->type.rank()));
    const int64_t exclusive = context.Int("exclusive", 0) != 0 ? 1 : 0;
    const int64_t reverse = context.Int("reverse", 0) != 0 ? 1 : 0;
    return context.AddNode(kKind, {context.input(0)},
                           {{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}});
  }
  static InferResult Infer(const InferContext& context) {
    FUSEC_TRY(CheckAxis(context.Int("axis"), context.operand(0).rank()));
    if (context.operand(0).dtype == Dtype::kBool) {
      return ModelError("the operand is bool, expected numbers");
    }
    return std::vector<TensorType>{context.operand(0)};
  }
  template <class T>
  static void FoldLine(const std::vector<T>& from, std::vector<T>& to, int64_t start,
                       const LinePlaces& lines, bool exclusive, bool reverse) {
    T total = kIsSum ? 0 : 1;
    for (int64_t j = 0; j < lines.length; ++j) {
      const int64_t place = start + (reverse ? lines.length - 1 - j : j) * lines.stride;
      const T before = total;
      total = kIsSum ? total + from[place] : total * from[place];
      to[place] = exclusive ? before : total;
    }
  }
  static Result<void> Reference(ReferenceContext& context) {
    const ReferenceTensor& input = context.input(0);
    ReferenceTensor& output = context.output();
    const bool exclusive = context.node.Int("exclusive") != 0;
    const bool reverse = context.node.Int("reverse") != 0;
    const LinePlaces lines(input.dims, context.node.Int("axis"));
    for (int64_t start : lines.starts) {
      if (IsFloat(input.dtype)) {
        FoldLine(input.reals, output.reals, start, lines, exclusive, reverse);
      } else {
        FoldLine(input.ints, output.ints, start, lines, exclusive, reverse);
      }
    }
    output.WrapInts();
    return {};
  }
};

struct CumProdOp : RunningFold<OpKind::kCumProd> {};
FUSEC_DEFINE_OP(CumProd)

struct CumSumOp : RunningFold<OpKind::kCumSum> {};
FUSEC_DEFINE_OP(CumSum)

// result = data; then for every i in order, with j equal to i except that j_axis = indices[i]:
// result[j] = reduction(result[j], updates[i]).
struct ScatterElementsOp {
  static constexpr AttributeSpec kAttributes[] = {{"axis", "int"},
                                                  {"reduction", "none|add|mul|max|min"},
                                                  {kInPlace, "int", true},
                                                  {kDistinct, "int", true}};
  static Result<void> Import(ImportContext& context) {
    FUSEC_ASSIGN(const int64_t axis,
                 ImportAxis(context, context.Int("axis", 0), context.input(0)->type.rank()));
    return context.AddNode(OpKind::kScatterElements,
                           {context.input(0), context.input(1), context.input(2)},
                           {{"axis", axis}, {"reduction", context.String("reduction", "none")}});
  }
  static InferResult Infer(const InferContext& context) {
    const TensorType& data = context.operand(0);
    const int64_t axis = context.Int("axis");
    FUSEC_TRY(CheckAxis(axis, data.rank()));
    FUSEC_TRY(CheckScatter(context));
    FUSEC_TRY(CheckIndexedShape(data, context.operand(1), axis, context.ranges));
    const Shape &indices = context.operand(1).shape, &updates = context.operand(2).shape;
    const std::string message =
        fmt::format("the updates are {}, but the indices {}", context.operand(2).ToString(),
                    context.operand(1).ToString());
    if (indices.size() != updates.size()) return ModelError(message);
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] != updates[i]) return SizesDiffer(message, updates[i], indices[i]);
    }
    return std::vector<TensorType>{data};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const int64_t axis = context.node.Int("axis");
    const std::string& reduction = context.node.Get<std::string>("reduction");
    const ReferenceTensor& indices = context.input(1);
    ReferenceTensor& output = context.output();
    output = context.input(0);
    Result<void> status;
    int64_t position = 0;
    ForEachIndex(indices.dims, [&](std::vector<int64_t> index) {
      if (!status) return;
      const Result<int64_t> row =
          context.CheckedIndex(1, position, indices.ints[position], output.dims[axis]);
      if (!row) {
        status = tl::unexpected<Error>(row.error());
        return;
      }
      index[axis] = *row;
      ReduceInto(output, output.Position(index), context.input(2), position++, reduction);
    });
    output.WrapInts();
    return status;
  }
  static std::optional<IndexUse> UseOfIndices(const Node& node, int operand) {
    return IndicesAlongAxis(node, operand);
  }
};
FUSEC_DEFINE_OP(ScatterElements)

// result = data; then for every i in order, with j = indices[i, 0], ..., indices[i, m-1], where m
// is the last dim of indices, the block result[j] = reduction(result[j], updates[i]).
struct ScatterNDOp {
  static constexpr AttributeSpec kAttributes[] = {{"reduction", "none|add|mul|max|min"}};
  static Result<void> Import(ImportContext& context) {
    if (const std::optional<Expr> per_row = UpdatesPerRow(context)) {
      return ScatterInRows(context, *per_row);
    }
    return context.AddNode(OpKind::kScatterND,
                           {context.input(0), context.input(1), context.input(2)},
                           {{"reduction", context.String("reduction", "none")}});
  }
  static InferResult Infer(const InferContext& context) {
    const TensorType& data = context.operand(0);
    const TensorType& indices = context.operand(1);
    FUSEC_TRY(CheckScatter(context));
    if (indices.rank() == 0) return ModelError("the indices are a scalar, expected rank 1 or more");
    const std::optional<int64_t> tuple = indices.shape.back().AsConstant();
    if (!tuple || *tuple > data.rank()) {
      return ModelError(fmt::format("the indices {} have {} coordinates, but data has rank {}",
                                    indices.ToString(), indices.shape.back().ToString(),
                                    data.rank()));
    }
    Shape expected(indices.shape.begin(), indices.shape.end() - 1);
    expected.insert(expected.end(), data.shape.begin() + *tuple, data.shape.end());
    const Shape& updates = context.operand(2).shape;
    const std::string message = fmt::format("the updates are {}, expected {}",
                                            context.operand(2).ToString(), ShapeText(expected));
    if (updates.size() != expected.size()) return ModelError(message);
    for (size_t axis = 0; axis < expected.size(); ++axis) {
      if (updates[axis] != expected[axis])
        return SizesDiffer(message, updates[axis], expected[axis]);
    }
    return std::vector<TensorType>{data};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const std::string& reduction = context.node.Get<std::string>("reduction");
    const ReferenceTensor& indices = context.input(1);
    ReferenceTensor& output = context.output();
    output = context.input(0);
    const int64_t tuple = indices.dims.back();
    const std::vector<int64_t> tuples(indices.dims.begin(), indices.dims.end() - 1);
    const std::vector<int64_t> block(output.dims.begin() + tuple, output.dims.end());
    Result<void> status;
    int64_t number = 0;  // index of the coordinate tuple
    int64_t update = 0;
    ForEachIndex(tuples, [&](ArrayRef<int64_t>) {
      std::vector<int64_t> corner;
      for (int64_t j = 0; status && j < tuple; ++j) {
        const int64_t at = number * tuple + j;
        const Result<int64_t> coordinate =
            context.CheckedIndex(1, at, indices.ints[at], output.dims[j]);
        if (coordinate) {
          corner.push_back(*coordinate);
        } else {
          status = tl::unexpected<Error>(coordinate.error());
        }
      }
      ++number;
      if (!status) return;
      ForEachIndex(block, [&](ArrayRef<int64_t> inner) {
        std::vector<int64_t> target = corner;
        target.insert(target.end(), inner.begin(), inner.end());
        ReduceInto(output, output.Position(target), context.input(2), update++, reduction);
      });
    });
    output.WrapInts();
    return status;
  }
  static std::optional<IndexUse> UseOfIndices(const Node& node, int operand) {
    return IndicesAreCoordinates(node, operand, 0);
  }
};
FUSEC_DEFINE_OP(ScatterND)

}  // namespace fusec
