#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/import/narrow_types.h"
#include "compiler/ir/graph.h"

namespace fusec {

// The interface through which an op's Import reads one ONNX node. The importer implements it; this
// header does not depend on protobuf.
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
  // An attribute that names an ONNX element type ("to", "dtype"), or an error naming the type that
  // fusec lacks.
  virtual Result<Dtype> Type(const std::string& attribute, Dtype otherwise) const = 0;
  // The ONNX type that an attribute names, or that an input has, if it is narrow. An input's value
  // is held in another dtype then.
  virtual std::optional<NarrowType> Narrow(const std::string& attribute) const = 0;
  virtual std::optional<NarrowType> Narrow(int input) const = 0;

  // The contents of an input that determines structure (axes, shape, pads). `what` names the input
  // in the error for contents that are known only at run time: `shape is computed from run-time
  // data, which fusec does not support`.
  virtual Result<TensorData> ConstantInput(int i, const std::string& what) const = 0;
  virtual Result<std::vector<int64_t>> ConstantInts(int i, const std::string& what) const = 0;
  virtual Result<Exprs> SymbolicInts(int i, const std::string& what) const = 0;
  virtual std::optional<TensorData> TryConstant(int i) const = 0;
  // The tensor that a value holds, if it depends neither on run-time data nor on a symbol.
  virtual std::optional<TensorData> TryConstant(const Value* value) const = 0;

  // The size, between 0 and `bound`, of part `number` of a tensor that is split at run time
  // (run_time_counts.h).
  virtual Expr RunTimeCount(Value* lengths, int number, const Expr& bound) = 0;

  virtual Builder& builder() = 0;  // carries this node's provenance
  virtual const Ranges& ranges() const = 0;
  virtual void SetOutput(int i, Value* value) = 0;
  // The same for a value that is held in another dtype than the ONNX type of the output.
  virtual void SetOutput(int i, Value* value, const NarrowType& type) = 0;

  // `model.onnx: node "/fc/Gemm" (Gemm): ` + message
  virtual tl::unexpected<Error> Fail(const std::string& message) const = 0;
  // Tells the user the same of a node that is imported nevertheless.
  virtual void Warn(const std::string&) {}

  // The common case: adds one IR node with these operands; its results become the outputs of the
  // ONNX node.
  Result<void> AddNode(OpKind kind, ValueList operands, Attributes attributes = {});
};

// Converts an axis in -rank..rank-1 to a non-negative one; otherwise the error names the axis and
// the rank.
Result<int64_t> NormalizeAxis(int64_t axis, int rank);
// The same for a list. The result is sorted; duplicates are an error.
Result<std::vector<int64_t>> NormalizeAxes(std::vector<int64_t> axes, int rank);

}  // namespace fusec
