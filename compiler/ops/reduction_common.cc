#include "compiler/ops/reduction_common.h"

#include <algorithm>
#include <numeric>

#include "compiler/import/import_context.h"
#include "compiler/reference/reference_context.h"

namespace fusec {

Result<std::vector<int64_t>> ImportReductionAxes(ImportContext& context, int axes_are_input_since) {
  std::vector<int64_t> axes;
  if (context.opset() < axes_are_input_since) {
    axes = context.Ints("axes");
  } else if (context.input_count() > 1 && context.input(1) != nullptr) {
    FUSEC_ASSIGN(axes, context.ConstantInts(1, "axes"));
  }
  const int rank = context.input(0)->type.rank();
  if (axes.empty() && context.Int("noop_with_empty_axes", 0) == 0) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  Result<std::vector<int64_t>> normalized = NormalizeAxes(std::move(axes), rank);
  if (!normalized) return context.Fail(normalized.error().message);
  return normalized;
}

Result<void> ImportReduction(ImportContext& context, OpKind kind, int axes_are_input_since) {
  FUSEC_ASSIGN(std::vector<int64_t> axes, ImportReductionAxes(context, axes_are_input_since));
  if (axes.empty() && GetOpDef(kind).op_class == OpClass::kReduction) {
    return context.AddNode(OpKind::kIdentity, {context.input(0)});
  }
  const int64_t keepdims = context.Int("keepdims", 1) != 0;
  return context.AddNode(kind, {context.input(0)}, {{"axes", axes}, {"keepdims", keepdims}});
}

Shape ReducedShape(ShapeRef shape, ArrayRef<int64_t> axes, bool keepdims) {
  Shape reduced;
  for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis) {
    if (!std::binary_search(axes.begin(), axes.end(), axis)) {
      reduced.push_back(shape[axis]);
    } else if (keepdims) {
      reduced.push_back(Expr(1));
    }
  }
  return reduced;
}

Result<TensorType> ReducedType(const InferContext& context) {
  const TensorType& operand = context.operand(0);
  const std::vector<int64_t>& axes = context.Ints("axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= operand.rank()) {
      return ModelError("axis is " + std::to_string(axes[i]) + ", but the rank is " +
                        std::to_string(operand.rank()));
    }
    if (i > 0 && axes[i] <= axes[i - 1]) {
      return ModelError("axes are not in ascending order without repeats");
    }
  }
  const bool keepdims = context.Int("keepdims") != 0;
  return TensorType{operand.dtype, ReducedShape(operand.shape, axes, keepdims)};
}

void ForEachReduced(ArrayRef<int64_t> dims, ArrayRef<int64_t> axes,
                    function_ref<void(int64_t, int64_t)> visit) {
  // The result's stride for each axis of the operand; 0 for reduced axes.
  std::vector<int64_t> strides(dims.size(), 0);
  int64_t stride = 1;
  for (int64_t axis = static_cast<int64_t>(dims.size()) - 1; axis >= 0; --axis) {
    if (std::binary_search(axes.begin(), axes.end(), axis)) continue;
    strides[axis] = stride;
    stride *= dims[axis];
  }
  int64_t operand = 0;
  ForEachIndex(dims, [&](ArrayRef<int64_t> index) {
    visit(operand++, std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0}));
  });
}

int64_t BroadcastPosition(ArrayRef<int64_t> dims, ArrayRef<int64_t> index) {
  const size_t skipped = index.size() - dims.size();
  int64_t position = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    position = position * dims[i] + (dims[i] == 1 ? 0 : index[skipped + i]);
  }
  return position;
}

bool IsGreater(const ReferenceTensor& tensor, int64_t i, int64_t j) {
  if (IsFloat(tensor.dtype)) return tensor.reals[i] > tensor.reals[j];
  if (tensor.dtype == Dtype::kU64) {
    return static_cast<uint64_t>(tensor.ints[i]) > static_cast<uint64_t>(tensor.ints[j]);
  }
  return tensor.ints[i] > tensor.ints[j];
}

int64_t LeastInteger(Dtype dtype) {
  if (IsUnsigned(dtype) || dtype == Dtype::kBool) return 0;
  return INT64_MIN >> (64 - 8 * DtypeBytes(dtype));
}

int64_t GreatestInteger(Dtype dtype) {
  if (dtype == Dtype::kBool) return 1;
  const int bits = 8 * DtypeBytes(dtype);
  if (IsUnsigned(dtype)) return static_cast<int64_t>(UINT64_MAX >> (64 - bits));
  return INT64_MAX >> (64 - bits);
}

}  // namespace fusec
