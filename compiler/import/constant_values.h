#pragma once

#include <memory>

#include "compiler/ir/graph.h"

namespace fusec {

// Computes, with the interpreter, the tensors of a graph that depend only on constants and fixed
// sizes. The importer asks for them where structure depends on data: the mask whose nonzero
// positions NonZero lists, or the float bounds of a Range.
class ConstantValues {
 public:
  // `ranges` holds the bounds of the graph's symbols; it is kept by reference.
  explicit ConstantValues(const Ranges& ranges) : ranges_(ranges) {}
  // Null if the value depends on an input or a symbol, or has more than 2^20 elements. The pointer
  // lives as long as this object.
  const TensorData* Of(const Value* value);

 private:
  std::unique_ptr<TensorData> Compute(const Value& value);
  std::unique_ptr<TensorData> FromSizes(const Value& value);

  const Ranges& ranges_;
  int depth_ = 0;  // recursion depth: values whose operands are being computed
  DenseMap<const Value*, std::unique_ptr<TensorData>>
      known_;  // null: already looked up and found not to be constant
};

}  // namespace fusec
