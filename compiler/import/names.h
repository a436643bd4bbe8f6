#pragma once

#include <string>
#include <string_view>

namespace fusec {

// An ONNX name made an identifier: "/top/top.0/Gemm_output_0" -> "top_top_0_Gemm_output_0", "123" -> "t123", "" -> "t".
std::string Identifier(std::string_view name);
// "" -> "ai.onnx"; others as they are.
std::string DomainName(const std::string& domain);
// A message of libonnx as a part of ours: one line, no full stop at the end.
std::string OneLine(std::string_view message);

}  // namespace fusec
