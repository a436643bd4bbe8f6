#pragma once

#include <string>

#include "compiler/driver/explain/explanation.h"

namespace fusec {

// The text about one kernel, in three sections: the ONNX nodes from which it was made with the ops
// that each became, the IR of its region (which `fusec opt` can read), and its code.
Result<std::string> KernelPage(const std::string& artifact, const std::string& target,
                               const Explanation::FoundStep& found);

// A table of the region's ONNX nodes and the ops that each became.
std::string NodesText(const Node& region);

}  // namespace fusec
