#pragma once

#include <string>
#include <string_view>

namespace fusec {

// Makes an identifier from an ONNX name: "/top/top.0/Gemm_output_0" -> "top_top_0_Gemm_output_0",
// "123" -> "t123", "" -> "t".
std::string Identifier(std::string_view name);
// The module path in a TorchScript node name: "/layers/layers.0/linear/Gemm" ->
// "layers.0.linear.Gemm". A child of a Sequential repeats its parent's name, which is dropped.
// Empty if the name does not begin with "/".
std::string ScopePath(std::string_view name);
// The identifier of a tensor, made from its name, or from its ScopePath without the suffix
// "_output_0" that TorchScript appends.
std::string TensorIdentifier(std::string_view name);
// Text from a file in a form that is safe to print or write: control characters and invalid UTF-8
// become '?'.
std::string Printable(std::string_view text);
// The same with line breaks replaced by '?' as well, for comments and tables.
std::string PrintableLine(std::string_view text);
// "" -> "ai.onnx"; others as they are.
std::string DomainName(const std::string& domain);
// An error message of libonnx in fusec's style: one line, first letter in lower case, no full stop.
std::string OneLine(std::string_view message);

}  // namespace fusec
