#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace fusec {

// What an op's Import sees of one ONNX node. Implemented by the importer; no protobuf here.
class ImportContext {
 public:
  virtual ~ImportContext() = default;

  virtual const std::string& onnx_op() const = 0;
  virtual int opset() const = 0;  // of the node's domain
  virtual int input_count() const = 0;
  virtual Value* input(int i) const = 0;  // null if omitted
  virtual int output_count() const = 0;
  virtual bool output_used(int i) const = 0;

  virtual bool Has(const std::string& attribute) const = 0;
  virtual int64_t Int(const std::string& attribute, int64_t otherwise) const = 0;
  virtual double Float(const std::string& attribute, double otherwise) const = 0;
  virtual std::string String(const std::string& attribute, const std::string& otherwise) const = 0;
  virtual std::vector<int64_t> Ints(const std::string& attribute) const = 0;
  virtual std::vector<double> Floats(const std::string& attribute) const = 0;
  virtual std::vector<std::string> Strings(const std::string& attribute) const = 0;
  virtual std::optional<TensorData> Tensor(const std::string& attribute) const = 0;
  // An attribute that names an ONNX element type ("to", "dtype"), or an error naming the type that fusec lacks.
  virtual Result<Dtype> Type(const std::string& attribute, Dtype otherwise) const = 0;

  // The contents of an input that decides structure (axes, shape, pads). `what` names it in the error that is given when the
  // contents are only known at run time: `shape is computed from run-time data, which fusec does not support`.
  virtual Result<TensorData> ConstantInput(int i, const std::string& what) const = 0;
  virtual Result<std::vector<int64_t>> ConstantInts(int i, const std::string& what) const = 0;
  virtual Result<Exprs> SymbolicInts(int i, const std::string& what) const = 0;
  virtual std::optional<TensorData> TryConstant(int i) const = 0;
  // The tensor that a value is, if it depends neither on run-time data nor on a symbol.
  virtual std::optional<TensorData> TryConstant(const Value* value) const = 0;

  // The size, 0 to `bound`, of part `number` of a tensor that is split by run-time data (run_time_counts.h).
  virtual Expr RunTimeCount(Value* lengths, int number, const Expr& bound) = 0;

  virtual Builder& builder() = 0;  // carries this node's provenance
  virtual const Ranges& ranges() const = 0;
  virtual void SetOutput(int i, Value* value) = 0;

  // `model.onnx: node "/fc/Gemm" (Gemm): ` + message
  virtual tl::unexpected<Error> Fail(const std::string& message) const = 0;

  // The common case: one IR node from all inputs, its results the outputs.
  Result<void> AddNode(OpKind kind, ValueList operands, Attributes attributes = {});
};

// An axis in -rank..rank-1 made non-negative, or an error saying which axis and rank.
Result<int64_t> NormalizeAxis(int64_t axis, int rank);
Result<std::vector<int64_t>> NormalizeAxes(std::vector<int64_t> axes, int rank);  // sorted, no repeats

}  // namespace fusec
