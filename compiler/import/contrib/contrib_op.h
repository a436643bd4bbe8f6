#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/node_context.h"

namespace fusec {

// A node of an op of onnxruntime's domain com.microsoft, for the code that writes its body.
class ContribNode {
 public:
  ContribNode(const NodeContext& context, const onnx::FunctionProto& signature)
      : context_(context), signature_(signature) {}

  // `input` is a name in the signature.
  bool Has(std::string_view input) const { return Find(input) != nullptr; }
  // The type of an input that the node has.
  const TensorType& Type(std::string_view input) const;
  int Rank(std::string_view input) const { return Type(input).rank(); }
  // A dim of an input that the node has (from the end if negative). An error if there is none.
  Result<Expr> Dim(std::string_view input, int axis) const;
  // The same. An error if it is not a constant.
  Result<int64_t> FixedDim(std::string_view input, int axis) const;
  bool Uses(std::string_view output) const;
  const NodeContext& context() const { return context_; }

  int64_t Int(const std::string& attribute, int64_t otherwise = 0) const {
    return context_.Int(attribute, otherwise);
  }
  double Float(const std::string& attribute, double otherwise) const {
    return context_.Float(attribute, otherwise);
  }
  tl::unexpected<Error> Fail(const std::string& message) const { return context_.Fail(message); }
  // An error if one of these inputs is missing.
  Result<void> Require(std::initializer_list<std::string_view> inputs) const;
  // An error if an input is given, or an attribute is not 0, that fusec does not support.
  Result<void> Refuse(std::initializer_list<std::string_view> inputs,
                      std::initializer_list<const char*> attributes) const;

 private:
  const Value* Find(std::string_view input) const;

  const NodeContext& context_;
  const onnx::FunctionProto& signature_;
};

// An op of com.microsoft or TensorFlow, as a function of ONNX's ops in the syntax of ONNX's parser.
// The semantics of the former are those of onnxruntime (docs/ContribOperators.md and its CPU kernels, which judge them in
// tests/conformance/check_contrib_ops.py).
struct ContribOp {
  // Its name, attributes (with defaults), inputs and outputs: "Op <a, b: int = 1> (X, Y) => (Z)".
  // Other attributes are errors, and so is an output that the body does not compute.
  const char* signature;
  int least_inputs;  // the first so many inputs must be given
  // The statements that compute the outputs from the inputs. An input that the node lacks is also
  // absent in the statements.
  const char* statements = nullptr;
  Result<std::string> (*body)(const ContribNode& node) = nullptr;  // if it depends on the node
  std::optional<OpKind> kind = std::nullopt;  // instead of statements: it is this op of the IR
};

// The opset of ai.onnx in which the statements are written.
inline constexpr int kContribOpset = 26;

// A finite float in the text of ONNX's parser, which refuses subnormal numbers: they become 0.
std::string FloatText(double value);

// Collects the statements of a body.
class Statements {
 public:
  // Adds "NAME = expression" with a new name, or with `name`, which is returned. Kernels call a
  // tensor by its name.
  std::string Let(const std::string& expression, const std::string& name = "");
  // The same for an op and its operands: Of("Add", a, b). The op may have attributes.
  template <class... Names>
  std::string Of(std::string_view op, const Names&... operands) {
    return Call(op, {std::string_view(operands)...});
  }
  void Set(const std::string& output, const std::string& expression);
  // 64-bit integers: a vector, or a scalar.
  std::string Ints(ArrayRef<int64_t> values);
  std::string Int(int64_t value);
  // A number of the dtype of `like`.
  std::string Number(double value, const std::string& like);
  // `x`, or x + `addend` if the node has that input.
  std::string Plus(const std::string& x, const ContribNode& node, const char* addend);
  // x with its two last axes swapped.
  std::string Transposed(const std::string& x, int rank);
  // The size of an axis of `x`, a scalar.
  std::string Dim(const std::string& x, int axis);
  // 0, 1, ... `count` - 1.
  std::string Iota(const std::string& count);
  // Parts of `x` along `axis`, of these sizes.
  std::vector<std::string> Split(const std::string& x, int axis, ArrayRef<int64_t> sizes);
  std::string text() const { return text_; }

 private:
  std::string Call(std::string_view op, std::initializer_list<std::string_view> operands);

  std::string text_;
  int names_ = 0;
};

}  // namespace fusec
