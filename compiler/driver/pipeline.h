#pragma once

#include <string>
#include <vector>

namespace fusec {

// The passes of a compilation, by name, in order.
std::vector<std::string> PipelinePasses();

}  // namespace fusec
