#pragma once

#include <gtest/gtest.h>

#include "compiler/import/import_context.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/symbolic_contents.h"
#include "compiler/reference/interpreter.h"
#include "compiler/reference/reference_context.h"
#include "compiler/support/adt.h"
#include "compiler/support/check.h"

namespace fusec {

using IntList = std::vector<int64_t>;
inline Expr Sym(const char* name) { return Expr::Symbol(name); }

inline ReferenceTensor Tensor(Dtype dtype, IntList dims, ArrayRef<double> values) {
  ReferenceTensor tensor(dtype, std::move(dims));
  for (size_t i = 0; i < values.size(); ++i) {
    if (IsFloat(dtype)) {
      tensor.reals[i] = values[i];
    } else {
      tensor.ints[i] = static_cast<int64_t>(values[i]);
    }
  }
  return tensor;
}
// A tensor with the elements 0, 1, 2, ...
inline ReferenceTensor Iota(Dtype dtype, IntList dims) {
  ReferenceTensor tensor(dtype, std::move(dims));
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    if (IsFloat(dtype)) {
      tensor.reals[i] = static_cast<double>(i);
    } else {
      tensor.ints[i] = i;
    }
  }
  return tensor;
}
inline std::vector<double> Values(const ReferenceTensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.element_count(); ++i) values.push_back(tensor.Real(i));
  return values;
}

// Imports one ONNX node without a file: its inputs are values of `graph`, and attributes are set by hand.
class FakeImport : public ImportContext {
 public:
  FakeImport(Graph& graph, std::string op, int opset, ValueList inputs, int outputs = 1)
      : op_(std::move(op)),
        opset_(opset),
        inputs_(std::move(inputs)),
        outputs(outputs),
        builder_(graph),
        ranges_(graph.SymbolRanges()) {}

  FakeImport& With(const std::string& name, Attribute value) {
    attributes_[name] = std::move(value);
    return *this;
  }
  FakeImport& WithTensor(const std::string& name, TensorData value) {
    tensors_[name] = std::move(value);
    return *this;
  }
  Result<void> Run() { return FindImport(op_)(*this); }

  const std::string& onnx_op() const override { return op_; }
  int opset() const override { return opset_; }
  int input_count() const override { return static_cast<int>(inputs_.size()); }
  Value* input(int i) const override { return inputs_[i]; }
  int output_count() const override { return static_cast<int>(outputs.size()); }
  bool output_used(int i) const override { return i != unused_output; }
  bool Has(const std::string& name) const override {
    return attributes_.count(name) != 0 || tensors_.count(name) != 0;
  }
  int64_t Int(const std::string& name, int64_t otherwise) const override {
    return attributes_.count(name) ? std::get<int64_t>(attributes_.at(name)) : otherwise;
  }
  double Float(const std::string& name, double otherwise) const override {
    return attributes_.count(name) ? std::get<double>(attributes_.at(name)) : otherwise;
  }
  std::string String(const std::string& name, const std::string& otherwise) const override {
    return attributes_.count(name) ? std::get<std::string>(attributes_.at(name)) : otherwise;
  }
  IntList Ints(const std::string& name) const override {
    return attributes_.count(name) ? std::get<IntList>(attributes_.at(name)) : IntList();
  }
  std::vector<double> Floats(const std::string& name) const override {
    return attributes_.count(name) ? std::get<std::vector<double>>(attributes_.at(name))
                                   : std::vector<double>();
  }
  std::vector<std::string> Strings(const std::string&) const override { return {}; }
  std::optional<TensorData> Tensor(const std::string& name) const override {
    if (tensors_.count(name) == 0) return std::nullopt;
    return tensors_.at(name);
  }
  Result<Dtype> Type(const std::string& name, Dtype otherwise) const override {
    return attributes_.count(name) ? std::get<Dtype>(attributes_.at(name)) : otherwise;
  }
  std::optional<NarrowType> Narrow(const std::string&) const override { return std::nullopt; }
  std::optional<NarrowType> Narrow(int) const override { return std::nullopt; }
  Result<TensorData> ConstantInput(int i, const std::string& what) const override {
    if (const std::optional<TensorData> data = TryConstant(i)) return *data;
    return RunTimeData(what);
  }
  Result<IntList> ConstantInts(int i, const std::string& what) const override {
    FUSEC_ASSIGN(const TensorData data, ConstantInput(i, what));
    IntList values;
    for (int64_t j = 0; j < data.element_count(); ++j) values.push_back(data.GetInt(j));
    return values;
  }
  Result<Exprs> SymbolicInts(int i, const std::string& what) const override {
    if (auto contents = SymbolicContents(inputs_[i], ranges_)) return *contents;
    return RunTimeData(what);
  }
  std::optional<TensorData> TryConstant(int i) const override { return TryConstant(inputs_[i]); }
  std::optional<TensorData> TryConstant(const Value* value) const override {
    const Node* producer = value->producer;
    if (producer == nullptr || producer->kind != OpKind::kConstant) return std::nullopt;
    return producer->constant;
  }
  Expr RunTimeCount(Value*, int, const Expr&) override { return Expr::Symbol("count"); }
  Builder& builder() override { return builder_; }
  const Ranges& ranges() const override { return ranges_; }
  void SetOutput(int i, Value* value) override { outputs[i] = value; }
  void SetOutput(int i, Value* value, const NarrowType&) override { outputs[i] = value; }
  tl::unexpected<Error> Fail(const std::string& message) const override {
    return ModelError(message);
  }

 private:
  tl::unexpected<Error> RunTimeData(const std::string& what) const {
    return Fail(what + " is computed from run-time data, which fusec does not support");
  }
  std::string op_;
  int opset_;
  ValueList inputs_;

 public:
  ValueList outputs;
  int unused_output = -1;

 private:
  Builder builder_;
  Ranges ranges_;
  Attributes attributes_;
  std::map<std::string, TensorData> tensors_;
};

inline Value* IntsConstant(Graph& graph, const IntList& values, Dtype dtype = Dtype::kI64) {
  return Builder(graph).Constant(
      TensorData::From(dtype, {static_cast<int64_t>(values.size())}, values));
}
inline Value* IntScalar(Graph& graph, int64_t value) {
  return Builder(graph).Constant(TensorData::From<int64_t>(Dtype::kI64, {}, {value}));
}

// Runs an op's Lower on numbers instead of writing C. The loop variables i0, i1, ... have the ranges of the result's dims, so that the
// simplifier works as in a kernel, and are bound to one element at a time.
class LowerEvaluator : public LowerContext {
 public:
  LowerEvaluator(const Graph& graph, const Node& node, int result,
                 std::vector<const ReferenceTensor*> operands,
                 std::map<std::string, int64_t> symbols)
      : ranges_(graph.SymbolRanges()),
        operands_(std::move(operands)),
        symbols_(std::move(symbols)) {
    node_ = &node;
    result_number_ = result;
    const Shape& shape = node.result(result)->type.shape;
    for (size_t i = 0; i < shape.size(); ++i) {
      const std::string name = "i" + std::to_string(i);
      ranges_.Set(name, 0, shape[i] - 1);
      index_.push_back(Expr::Symbol(name));
    }
  }
  double At(const IntList& index) {
    for (size_t i = 0; i < index.size(); ++i) symbols_["i" + std::to_string(i)] = index[i];
    return std::stod(GetOpDef(node_->kind).functions.lower(*this).text());
  }

  const Ranges& ranges() const override { return ranges_; }
  Scalar Load(int operand, ArrayRef<Expr> index) override {
    const ReferenceTensor& tensor = *operands_[operand];
    EXPECT_EQ(index.size(), tensor.dims.size());
    IntList place;
    for (size_t i = 0; i < index.size(); ++i) {
      place.push_back(Number(index[i]));
      EXPECT_GE(place[i], 0) << index[i].ToString();
      EXPECT_LT(place[i], tensor.dims[i]) << index[i].ToString();
      if (place[i] < 0 || place[i] >= tensor.dims[i]) return {"-12345", tensor.dtype};
    }
    return {CExpr::Parse(std::to_string(tensor.Real(tensor.Position(place)))), tensor.dtype};
  }
  std::string Array(int) override { return "array"; }
  Scalar Let(const std::string& c_expression, Dtype dtype, const std::string&) override {
    written = c_expression;
    return {"0", dtype};
  }
  void Use(const std::string&) override {}
  Scalar SelectBelow(const Expr& position, const Expr& limit, Dtype,
                     function_ref<Scalar()> then,
                     function_ref<Scalar()> otherwise) override {
    return Number(position) < Number(limit) ? then() : otherwise();
  }
  Expr IndexFromData(const Scalar& data, const Expr& extent, int,
                     ArrayRef<Expr>) override {
    const int64_t value = std::stoll(data.text());
    return Expr(value < 0 ? value + Number(extent) : value);
  }
  Expr SlotFromData(const Scalar&, int, ArrayRef<Expr>, int) override {
    ReportBug(__FILE__, __LINE__, "SlotFromData", "is not for these ops");
  }
  Expr PlaceOfCachedRow(const Expr& row, int) override { return row; }
  Scalar DataFromIndex(const Expr& index, Dtype dtype) override {
    return {Number(index), dtype};
  }
  Scalar FoldRange(OpKind, Dtype, const Scalar&, const Scalar&, const Expr&,
                   function_ref<Scalar(const Expr&)>, bool) override {
    ReportBug(__FILE__, __LINE__, "FoldRange", "is not for these ops");
  }
  std::string written;  // the last expression given to Let

 private:
  int64_t Number(const Expr& expr) {
    const Result<int64_t> number = expr.Evaluate(symbols_);
    EXPECT_TRUE(number) << expr.ToString();
    return number ? *number : 0;
  }
  Ranges ranges_;
  std::vector<const ReferenceTensor*> operands_;
  std::map<std::string, int64_t> symbols_;
};

// The interpreter's answer for the only output of the graph. If the node of the output has a Lower and reads only graph inputs and scalars,
// every element is also computed by Lower, and must be the same.
inline ReferenceTensor RunOutput(Graph& graph, Value* output,
                                 ArrayRef<ReferenceTensor> inputs) {
  graph.outputs = {output};
  Result<std::vector<ReferenceTensor>> answers = Interpret(graph, inputs);
  EXPECT_TRUE(answers) << (answers ? "" : answers.error().message);
  if (!answers) return {};
  const ReferenceTensor& answer = (*answers)[0];
  const Node& node = *output->producer;
  std::vector<ReferenceTensor> constants(node.operands.size());
  std::vector<const ReferenceTensor*> operands;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Value* operand = node.operands[i];
    for (size_t j = 0; j < graph.inputs.size(); ++j) {
      if (graph.inputs[j].get() == operand) operands.push_back(&inputs[j]);
    }
    if (operand->producer == nullptr) continue;
    if (operand->producer->kind != OpKind::kConstant) return answer;
    constants[i] = ReferenceTensor::FromData(operand->producer->constant);
    operands.push_back(&constants[i]);
  }
  if (GetOpDef(node.kind).functions.lower == nullptr || node.kind == OpKind::kOneHot) return answer;
  std::vector<IntList> dims;
  for (const ReferenceTensor& input : inputs) dims.push_back(input.dims);
  LowerEvaluator lower(graph, node, 0, operands, *BindSymbols(graph, dims));
  int64_t position = 0;
  ForEachIndex(answer.dims, [&](const IntList& index) {
    EXPECT_EQ(lower.At(index), answer.Real(position)) << "element " << position;
    ++position;
  });
  return answer;
}

}  // namespace fusec
