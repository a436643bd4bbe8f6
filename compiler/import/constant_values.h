#pragma once

#include <memory>

#include "compiler/ir/graph.h"

namespace fusec {

// The tensors of a graph that depend on constants and fixed sizes alone, computed by the
// interpreter when an import asks for them: a mask from which a NonZero takes its places, the
// bounds of a Range in floats.
class ConstantValues {
 public:
  // `ranges`: of the graph's symbols, which sizes are computed from; kept by reference.
  explicit ConstantValues(const Ranges& ranges) : ranges_(ranges) {}
  // Null if the value depends on an input or a symbol, or is larger than what exporters compute
  // structure with (2^20 elements). The pointer lives as long as the object.
  const TensorData* Of(const Value* value);

 private:
  std::unique_ptr<TensorData> Compute(const Value& value);
  std::unique_ptr<TensorData> FromSizes(const Value& value);

  const Ranges& ranges_;
  int depth_ = 0;  // of values whose operands are being computed
  DenseMap<const Value*, std::unique_ptr<TensorData>>
      known_;  // null: asked before, and not constant
};

}  // namespace fusec
