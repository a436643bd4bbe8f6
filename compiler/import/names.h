#pragma once

#include <string>
#include <string_view>

namespace fusec {

// An ONNX name made an identifier: "/top/top.0/Gemm_output_0" -> "top_top_0_Gemm_output_0", "123"
// -> "t123", "" -> "t".
std::string Identifier(std::string_view name);
// TorchScript's "/layers/layers.0/linear/Gemm" -> "layers.0.linear.Gemm": a child of a Sequential
// repeats its parent's name. Empty if the name is of another kind.
std::string ScopePath(std::string_view name);
// The identifier of a tensor: of its name, or of its ScopePath without the "_output_0" that
// TorchScript puts behind it.
std::string TensorIdentifier(std::string_view name);
// Text from a file as it may be shown or written elsewhere: control characters and what is no UTF-8
// become '?'.
std::string Printable(std::string_view text);
// The same without ends of lines, as what is named in a comment or a table must be.
std::string PrintableLine(std::string_view text);
// "" -> "ai.onnx"; others as they are.
std::string DomainName(const std::string& domain);
// A message of libonnx as a part of ours: one line, beginning in lower case, no full stop.
std::string OneLine(std::string_view message);

}  // namespace fusec
