#pragma once

#include <string>
#include <vector>

#include "compiler/ir/dtype.h"

namespace fusec {

// Facts from libonnx's op schemas of the default domain. The functions return empty lists for an
// unknown op.

// The opset versions that changed the op, ascending: {1, 6, 7, 13, 14} for Add.
std::vector<int> OnnxSinceVersions(const std::string& op);
// The dtypes that fusec has and that the newest version of the op allows for its first input (for
// its first output if it has no inputs), in the order of Dtype.
std::vector<Dtype> OnnxDtypes(const std::string& op);

// The supported ops of onnxruntime's own domain and of ai.onnx.ml: "com.microsoft.Attention", ...
std::vector<std::string> OpsOfOtherDomains();

struct OnnxSupport {
  std::string library_version;  // "1.22.0"
  int min_opset = 0, max_opset = 0;
};
OnnxSupport GetOnnxSupport();

}  // namespace fusec
