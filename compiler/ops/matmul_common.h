#pragma once

#include "compiler/ir/op_def.h"

namespace fusec {

struct ReferenceTensor;

// A factor of a product, [.., rows, columns] or, if `transposed`, [.., columns, rows].
struct MatMulFactor {
  const TensorType& type;
  bool transposed = false;
};
// [batch.., m, k] x [batch.., k, n] -> [batch.., m, n], the batch dims broadcast.
Result<Shape> ShapeOfProduct(const MatMulFactor& a, const MatMulFactor& b);

// The product in double or in integers, with k ascending.
void ReferenceProduct(const ReferenceTensor& a, bool transpose_a, const ReferenceTensor& b,
                      bool transpose_b, ReferenceTensor& product);

}  // namespace fusec
