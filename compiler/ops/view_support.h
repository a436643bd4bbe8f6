#pragma once

#include <string>
#include <vector>

#include "compiler/import/import_context.h"
#include "compiler/index/reshape.h"
#include "compiler/ir/integer_facts.h"
#include "compiler/ir/op_def.h"
#include "compiler/reference/reference_context.h"
#include "compiler/support/adt.h"

// Shared by the ops that move elements without computing on them.
namespace fusec {

// --- import ---

bool HasInput(const ImportContext& context, int i);
// Adds a node and returns its first result; if Infer rejects it, that is an error of the ONNX node.
Result<Value*> AddView(ImportContext& context, OpKind kind, ValueList operands,
                       Attributes attributes);
Result<int64_t> ImportAxis(const ImportContext& context, int64_t axis, int rank);
Result<std::vector<int64_t>> ImportAxes(const ImportContext& context, std::vector<int64_t> axes,
                                        int rank);
// The axes as the model gives them, in the attribute (before opset 13 or 18) or in input `i`;
// nullopt if neither is given.
Result<std::optional<std::vector<int64_t>>> AxesFromAttributeOrInput(const ImportContext& context,
                                                                     int i);

// --- types ---

std::string ShapeText(ShapeRef shape);  // "[batch, 13]"
// An error unless 0 <= axis < rank.
Result<void> CheckAxis(int64_t axis, int rank);
// An error unless the attribute `what` has `expected` values.
Result<void> CheckCount(const std::string& what, size_t found, size_t expected);
// For ops with one index per element along `axis`: an error if the ranks differ, or if `indices` is
// longer than `data` along another axis.
Result<void> CheckIndexedShape(const TensorType& data, const TensorType& indices, int64_t axis,
                               const Ranges& ranges);
// The IndexUse of ops whose second operand holds indices along the attribute `axis` of the first.
std::optional<IndexUse> IndicesAlongAxis(const Node& node, int operand);
// The IndexUse of ops whose second operand holds coordinates of the first, from axis `first` on.
std::optional<IndexUse> IndicesAreCoordinates(const Node& node, int operand, int64_t first);
// Whether the shapes have the same number of elements. Common dims are canceled first, so that [n,
// 4] and [2, n, 2] agree for every n.
bool SameElementCount(ShapeRef a, ShapeRef b, const Ranges& ranges);

// --- reference ---

Result<std::vector<int64_t>> EvaluateDims(ArrayRef<Expr> dims,
                                          const std::map<std::string, int64_t>& symbols);
void CopyElement(const ReferenceTensor& from, int64_t i, ReferenceTensor& to, int64_t j);
// The same for `count` elements from i and j on; those of `from` are `stride` apart.
void CopyElements(const ReferenceTensor& from, int64_t i, ReferenceTensor& to, int64_t j,
                  int64_t count, int64_t stride = 1);
// output(0)[index] = the element of input(0) at `first` + the sum of index[i] * strides[i].
void MoveElements(ReferenceContext& context, int64_t first, ArrayRef<int64_t> strides);

// --- lower ---

Scalar ZeroOf(Dtype dtype);
Scalar OneOf(Dtype dtype);
// scalar(i) for the i with ends[i - 1] <= position < ends[i]; the last end is not tested. Up to 4
// choices are tested one by one (if / else if), more by a balanced tree, so that a choice among 27
// embeddings takes at most 6 comparisons per element.
Scalar SelectAmong(LowerContext& context, const Expr& position, ArrayRef<Expr> ends, Dtype dtype,
                   function_ref<Scalar(int)> scalar);

}  // namespace fusec
