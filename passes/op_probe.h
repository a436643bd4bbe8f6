#pragma once

#include <string>

#include "compiler/ir/op_def.h"

namespace fusec {

// Runs an op's Lower only to observe what it loads; subclasses implement Load. Every scalar is the
// same dummy, and an index that depends on data is a fresh variable over all values that it may
// have.
class OpProbe : public LowerContext {
 public:
  std::string Array(int) override { return kScalar; }
  Scalar Let(const std::string&, Dtype dtype, const std::string&) override {
    return {kScalar, dtype};
  }
  void Use(const std::string&) override {}
  Expr IndexFromData(const Scalar&, const Expr& extent, int, ArrayRef<Expr>) override {
    return AnyBelow(extent);
  }
  Expr SlotFromData(const Scalar&, int, ArrayRef<Expr>, int bank) override {
    return AnyBelow(node_->operand(bank)->type.shape[0]);
  }
  Expr PlaceOfCachedRow(const Expr& row, int) override { return row; }
  Scalar DataFromIndex(const Expr&, Dtype dtype) override { return {kScalar, dtype}; }
  Scalar FoldRange(OpKind, Dtype, const Scalar&, const Scalar&, const Expr& extent,
                   function_ref<Scalar(const Expr&)> element, bool) override {
    return element(AnyBelow(extent));
  }

 protected:
  static constexpr const char* kScalar = "x";
  // A number in 0 .. extent - 1 of which nothing else is known.
  virtual Expr AnyBelow(const Expr& extent) = 0;
};

}  // namespace fusec
