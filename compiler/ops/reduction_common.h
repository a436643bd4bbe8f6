#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/op_def.h"
#include "compiler/support/adt.h"

namespace fusec {

struct ReferenceTensor;

// Attributes of every reduction: axes are non-negative, sorted and without duplicates; keepdims is
// 0 or 1. With empty axes nothing is reduced: each element is its own sum, product or maximum.
inline constexpr AttributeSpec kReductionAttributes[] = {{"axes", "ints"}, {"keepdims", "int"}};

// The axes of an ONNX Reduce* node, normalized. A node without axes reduces all axes, unless
// noop_with_empty_axes is set. The axes are input 1 from opset `axes_are_input_since` on; in older
// opsets they are an attribute.
Result<std::vector<int64_t>> ImportReductionAxes(ImportContext& context, int axes_are_input_since);
// Imports an ONNX Reduce* node as one node of `kind`; as an identity if a plain reduction
// (kReduction) has no axes.
Result<void> ImportReduction(ImportContext& context, OpKind kind, int axes_are_input_since);

// `shape` without `axes`, or with size 1 there.
Shape ReducedShape(ShapeRef shape, ArrayRef<int64_t> axes, bool keepdims);
// The operand's type with its shape reduced; an error if an axis is outside the rank.
Result<TensorType> ReducedType(const InferContext& context);

// Calls `visit` for every element of an operand of `dims`, in row-major order, with its position
// and that of the result element into which it is folded.
void ForEachReduced(ArrayRef<int64_t> dims, ArrayRef<int64_t> axes,
                    function_ref<void(int64_t operand, int64_t result)> visit);

// The position in an operand of `dims` that corresponds to element `index` of a broadcast result.
int64_t BroadcastPosition(ArrayRef<int64_t> dims, ArrayRef<int64_t> index);

// Whether element i is greater than element j in the order of the dtype; false if either is NaN.
bool IsGreater(const ReferenceTensor& tensor, int64_t i, int64_t j);

// The least and the greatest value of an integer dtype or bool, as ReferenceTensor stores it in 64
// bits.
int64_t LeastInteger(Dtype dtype);
int64_t GreatestInteger(Dtype dtype);

}  // namespace fusec
