#pragma once

#include <string>
#include <vector>

#include "compiler/ir/c_text.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/adt.h"
#include "compiler/support/check.h"

namespace fusec {

// Lowers one element of a pointwise node to C statements; operand 0 is the scalar x0, operand 1 is x1, and so on.
class TextRecorder : public LowerContext {
 public:
  explicit TextRecorder(const Node& node) {
    node_ = &node;
    for (int i = 0; i < node.result()->type.rank(); ++i) {
      index_.push_back(Expr::Symbol("i" + std::to_string(i)));
    }
    result = GetOpDef(node.kind).functions.lower(*this);
  }

  const Ranges& ranges() const override { return ranges_; }
  Scalar Load(int operand, ArrayRef<Expr>) override {
    const Value& value = *node_->operand(operand);
    const Node* producer = value.producer;
    if (producer != nullptr && producer->kind == OpKind::kConstant) {
      return {Literal(producer->constant.GetDouble(0), value.type.dtype), value.type.dtype};
    }
    return {"x" + std::to_string(operand), value.type.dtype};
  }
  std::string Array(int) override { return "array"; }
  Scalar Let(const std::string& c_expression, Dtype dtype, const std::string&) override {
    const std::string name = "v" + std::to_string(statements.size());
    statements.push_back("const " + CTypeName(dtype) + " " + name + " = " + c_expression + ";");
    return {name, dtype};
  }
  void Use(const std::string& device_file) override { files.push_back(device_file); }
  Scalar SelectBelow(const Expr&, const Expr&, Dtype, function_ref<Scalar()>,
                     function_ref<Scalar()>) override {
    ReportBug(__FILE__, __LINE__, "SelectBelow", "is not for these ops");
  }
  Expr IndexFromData(const Scalar&, const Expr&, int, ArrayRef<Expr>) override {
    ReportBug(__FILE__, __LINE__, "IndexFromData", "is not for these ops");
  }
  Expr SlotFromData(const Scalar&, int, ArrayRef<Expr>, int) override {
    ReportBug(__FILE__, __LINE__, "SlotFromData", "is not for these ops");
  }
  Expr PlaceOfCachedRow(const Expr&, int) override {
    ReportBug(__FILE__, __LINE__, "PlaceOfCachedRow", "is not for these ops");
  }
  Scalar DataFromIndex(const Expr&, Dtype) override {
    ReportBug(__FILE__, __LINE__, "DataFromIndex", "is not for these ops");
  }
  Scalar FoldRange(OpKind, Dtype, const Scalar&, const Scalar&, const Expr&,
                   function_ref<Scalar(const Expr&)>, bool) override {
    ReportBug(__FILE__, __LINE__, "FoldRange", "is not for these ops");
  }

  std::vector<std::string> statements;
  std::vector<std::string> files;
  Scalar result;

 private:
  Ranges ranges_;
};

}  // namespace fusec
