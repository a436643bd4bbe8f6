// Ops that read at indices which are data.
#include <fmt/format.h>

#include "compiler/ir/failing_gather.h"
#include "compiler/ops/define_op.h"
#include "compiler/ops/view_support.h"

namespace fusec {
namespace {

Result<void> CheckIndices(const TensorType& indices) {
  if (IsInteger(indices.dtype)) return {};
  return ModelError(fmt::format("the indices are {}, expected integers", indices.ToString()));
}

}  // namespace

// result[a.., i.., b..] = data[a.., indices[i..], b..] with `axis` dims in front: row lookup,
// embedding tables. An optional third operand is a cache of the table's rows (row_cache.h); it does
// not change the result.
struct GatherOp {
  static constexpr AttributeSpec kAttributes[] = {{"axis", "int"}, {kFailsOutside, "int", true}};
  static Result<void> Import(ImportContext& context) {
    FUSEC_ASSIGN(const int64_t axis,
                 ImportAxis(context, context.Int("axis", 0), context.input(0)->type.rank()));
    return context.AddNode(OpKind::kGather, {context.input(0), context.input(1)}, {{"axis", axis}});
  }
  static InferResult Infer(const InferContext& context) {
    const TensorType& data = context.operand(0);
    const int64_t axis = context.Int("axis");
    FUSEC_TRY(CheckAxis(axis, data.rank()));
    FUSEC_TRY(CheckIndices(context.operand(1)));
    if (context.has_operand(kCache)) {
      const TensorType& cache = context.operand(kCache);
      if (axis != 0 || cache.dtype != Dtype::kI32)
        return ModelError("a cache of rows is " + cache.ToString() + " and the axis " +
                          std::to_string(axis) + ", expected i32 and 0");
    }
    TensorType result = data;
    result.shape.erase(result.shape.begin() + axis);
    const Shape& indices = context.operand(1).shape;
    result.shape.insert(result.shape.begin() + axis, indices.begin(), indices.end());
    return std::vector<TensorType>{std::move(result)};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const int64_t axis = context.node.Int("axis");
    const ReferenceTensor& data = context.input(0);
    const ReferenceTensor& indices = context.input(1);
    const size_t index_rank = indices.dims.size();
    Result<void> status;
    int64_t position = 0;
    ForEachIndex(context.output().dims, [&](std::vector<int64_t> index) {
      if (!status) return;
      const int64_t place = indices.Position(ArrayRef(index).slice(axis, index_rank));
      const Result<int64_t> row =
          context.CheckedIndex(1, place, indices.ints[place], data.dims[axis]);
      if (!row) {
        status = tl::unexpected<Error>(row.error());
        return;
      }
      index.erase(index.begin() + axis, index.begin() + axis + static_cast<int64_t>(index_rank));
      index.insert(index.begin() + axis, *row);
      CopyElement(data, data.Position(index), context.output(), position++);
    });
    return status;
  }
  static Scalar Lower(LowerContext& context) {
    const int64_t axis = context.node().Int("axis");
    const Expr& extent = context.node().operand(0)->type.shape[axis];
    const auto begin = context.index().begin() + axis;
    const auto end = begin + context.node().operand(1)->type.rank();
    const Exprs place(begin, end);
    Exprs source(context.index().begin(), begin);
    Expr row = context.IndexFromData(context.Load(1, place), extent, 1, place);
    if (context.node().operands.size() > kCache) row = context.PlaceOfCachedRow(row, kCache);
    source.push_back(std::move(row));
    source.insert(source.end(), end, context.index().end());
    return context.Load(0, source);
  }
  static std::optional<IndexUse> UseOfIndices(const Node& node, int operand) {
    return IndicesAlongAxis(node, operand);
  }

 private:
  static constexpr int kCache = 2;  // operand index
};
FUSEC_DEFINE_OP(Gather)

// result[i] = data[i with i_axis replaced by indices[i]].
struct GatherElementsOp {
  static constexpr AttributeSpec kAttributes[] = {{"axis", "int"}};
  static Result<void> Import(ImportContext& context) {
    FUSEC_ASSIGN(const int64_t axis,
                 ImportAxis(context, context.Int("axis", 0), context.input(0)->type.rank()));
    return context.AddNode(OpKind::kGatherElements, {context.input(0), context.input(1)},
                           {{"axis", axis}});
  }
  static InferResult Infer(const InferContext& context) {
    const TensorType& data = context.operand(0);
    const TensorType& indices = context.operand(1);
    const int64_t axis = context.Int("axis");
    FUSEC_TRY(CheckAxis(axis, data.rank()));
    FUSEC_TRY(CheckIndices(indices));
    FUSEC_TRY(CheckIndexedShape(data, indices, axis, context.ranges));
    return std::vector<TensorType>{{data.dtype, indices.shape}};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const int64_t axis = context.node.Int("axis");
    const ReferenceTensor& data = context.input(0);
    const ReferenceTensor& indices = context.input(1);
    Result<void> status;
    int64_t position = 0;
    ForEachIndex(indices.dims, [&](std::vector<int64_t> index) {
      if (!status) return;
      const Result<int64_t> row =
          context.CheckedIndex(1, position, indices.ints[position], data.dims[axis]);
      if (!row) {
        status = tl::unexpected<Error>(row.error());
        return;
      }
      index[axis] = *row;
      CopyElement(data, data.Position(index), context.output(), position++);
    });
    return status;
  }
  static Scalar Lower(LowerContext& context) {
    const int64_t axis = context.node().Int("axis");
    const Expr& extent = context.node().operand(0)->type.shape[axis];
    Exprs source = context.index();
    source[axis] =
        context.IndexFromData(context.Load(1, context.index()), extent, 1, context.index());
    return context.Load(0, source);
  }
  static std::optional<IndexUse> UseOfIndices(const Node& node, int operand) {
    return IndicesAlongAxis(node, operand);
  }
};
FUSEC_DEFINE_OP(GatherElements)

// With b = batch_dims and m = the last dim of indices:
// result[i.., c..] = data[i_0..i_(b-1), indices[i.., 0..m-1], c..].
struct GatherNDOp {
  static constexpr AttributeSpec kAttributes[] = {{"batch_dims", "int"}};
  static Result<void> Import(ImportContext& context) {
    return context.AddNode(OpKind::kGatherND, {context.input(0), context.input(1)},
                           {{"batch_dims", context.Int("batch_dims", 0)}});
  }
  static InferResult Infer(const InferContext& context) {
    const TensorType& data = context.operand(0);
    const TensorType& indices = context.operand(1);
    FUSEC_TRY(CheckIndices(indices));
    const int64_t batch_dims = context.Int("batch_dims");
    if (batch_dims < 0 || batch_dims >= indices.rank() || batch_dims > data.rank()) {
      return ModelError(fmt::format("batch_dims is {}, but the ranks are {} and {}", batch_dims,
                                    data.rank(), indices.rank()));
    }
    const std::optional<int64_t> tuple = indices.shape.back().AsConstant();
    if (!tuple || batch_dims + *tuple > data.rank()) {
      return ModelError(fmt::format(
          "the indices {} have {} coordinates, but data {} has {} to choose", indices.ToString(),
          indices.shape.back().ToString(), data.ToString(), data.rank() - batch_dims));
    }
    for (int64_t i = 0; i < batch_dims; ++i) {
      if (data.shape[i] != indices.shape[i]) {
        return ModelError(fmt::format("batch dim {} is {} in data and {} in the indices", i,
                                      data.shape[i].ToString(), indices.shape[i].ToString()));
      }
    }
    Shape shape(indices.shape.begin(), indices.shape.end() - 1);
    shape.insert(shape.end(), data.shape.begin() + batch_dims + *tuple, data.shape.end());
    return std::vector<TensorType>{{data.dtype, std::move(shape)}};
  }
  static Result<void> Reference(ReferenceContext& context) {
    const int64_t batch_dims = context.node.Int("batch_dims");
    const ReferenceTensor& data = context.input(0);
    const ReferenceTensor& indices = context.input(1);
    const int64_t tuple = indices.dims.back();
    const size_t prefix = indices.dims.size() - 1;
    Result<void> status;
    int64_t position = 0;
    ForEachIndex(context.output().dims, [&](ArrayRef<int64_t> index) {
      std::vector<int64_t> place(index.begin(), index.begin() + prefix);
      std::vector<int64_t> source(index.begin(), index.begin() + batch_dims);
      place.push_back(0);
      for (int64_t j = 0; status && j < tuple; ++j) {
        place.back() = j;
        const int64_t at = indices.Position(place);
        const Result<int64_t> coordinate =
            context.CheckedIndex(1, at, indices.ints[at], data.dims[batch_dims + j]);
        if (coordinate) {
          source.push_back(*coordinate);
        } else {
          status = tl::unexpected<Error>(coordinate.error());
        }
      }
      if (!status) return;
      source.insert(source.end(), index.begin() + prefix, index.end());
      CopyElement(data, data.Position(source), context.output(), position++);
    });
    return status;
  }
  static Scalar Lower(LowerContext& context) {
    const int64_t batch_dims = context.node().Int("batch_dims");
    const Shape& data = context.node().operand(0)->type.shape;
    const Shape& indices = context.node().operand(1)->type.shape;
    const int64_t tuple = *indices.back().AsConstant();
    const auto begin = context.index().begin();
    const auto prefix_end = begin + (indices.size() - 1);
    Exprs place(begin, prefix_end);
    Exprs source(begin, begin + batch_dims);
    place.push_back(Expr(0));
    for (int64_t j = 0; j < tuple; ++j) {
      place.back() = Expr(j);
      source.push_back(
          context.IndexFromData(context.Load(1, place), data[batch_dims + j], 1, place));
    }
    source.insert(source.end(), prefix_end, context.index().end());
    return context.Load(0, source);
  }
  static std::optional<IndexUse> UseOfIndices(const Node& node, int operand) {
    return IndicesAreCoordinates(node, operand, node.Int("batch_dims"));
  }
};
FUSEC_DEFINE_OP(GatherND)

}  // namespace fusec
