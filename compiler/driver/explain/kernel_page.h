#pragma once

#include <string>

#include "compiler/driver/explain/explanation.h"

namespace fusec {

// A page about one kernel in three sections: the ONNX nodes that it was made from and the ops that
// each became, the IR of its region (which `fusec opt` reads), and its code.
Result<std::string> KernelPage(const std::string& artifact, const std::string& target,
                               const Explanation::FoundStep& found);

// A table of the region's ONNX nodes and the ops that each became.
std::string NodesText(const Node& region);

}  // namespace fusec
