#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/op_def.h"
#include "compiler/support/adt.h"

namespace fusec {

struct ReferenceTensor;

// Of every reduction: axes are non-negative, sorted and without repeats, keepdims is 0 or 1. Empty
// axes reduce nothing: each element is a sum, product or maximum of its own.
inline constexpr AttributeSpec kReductionAttributes[] = {{"axes", "ints"}, {"keepdims", "int"}};

// The axes an ONNX Reduce* node names, normalised; all axes if it names none, unless
// noop_with_empty_axes says to reduce nothing. They are input 1 from opset `axes_are_input_since`
// on, before that an attribute.
Result<std::vector<int64_t>> ImportReductionAxes(ImportContext& context, int axes_are_input_since);
// Reduce* of ONNX as one node of `kind`; an identity where a plain fold (kReduction) has nothing to
// reduce.
Result<void> ImportReduction(ImportContext& context, OpKind kind, int axes_are_input_since);

// `shape` without `axes`, or with size 1 there.
Shape ReducedShape(ShapeRef shape, ArrayRef<int64_t> axes, bool keepdims);
// The operand's type with its shape reduced; errors for axes outside the rank.
Result<TensorType> ReducedType(const InferContext& context);

// Calls `visit` with the position of every element of an operand of `dims` and that of the result
// element into which it is folded, in row-major order of the operand.
void ForEachReduced(ArrayRef<int64_t> dims, ArrayRef<int64_t> axes,
                    function_ref<void(int64_t operand, int64_t result)> visit);

// The position of the element of an operand of `dims` that meets element `index` of a broadcast
// result.
int64_t BroadcastPosition(ArrayRef<int64_t> dims, ArrayRef<int64_t> index);

// Whether element i is greater than element j, by the dtype's own order; false where either is NaN.
bool IsGreater(const ReferenceTensor& tensor, int64_t i, int64_t j);

// The least and greatest value of an integer dtype or bool, in the 64 bits of ReferenceTensor.
int64_t LeastInteger(Dtype dtype);
int64_t GreatestInteger(Dtype dtype);

}  // namespace fusec
