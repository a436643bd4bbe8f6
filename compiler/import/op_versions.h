#pragma once

#include <string>
#include <vector>

#include "compiler/ir/dtype.h"

namespace fusec {

// Facts from ONNX's own table of op types of the default domain; all are empty for a name that the
// table does not have.

// The opset versions that changed it, ascending: {1, 6, 7, 13, 14} for Add.
std::vector<int> OnnxSinceVersions(const std::string& op);
// The element types that fusec has and that the first input may have in the newest version, in the
// order of Dtype. For ops without inputs, those of the first output.
std::vector<Dtype> OnnxDtypes(const std::string& op);

struct OnnxSupport {
  std::string library_version;  // "1.22.0"
  int min_opset = 0, max_opset = 0;
};
OnnxSupport GetOnnxSupport();

}  // namespace fusec
