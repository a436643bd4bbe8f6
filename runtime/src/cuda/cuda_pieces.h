#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fusec::runtime {

// The architecture, such as "sm_90a", that gives access to all features of the first GPU of this
// machine; nothing without a GPU or driver.
std::optional<std::string> GpuArchitecture();

// The parts of CUDA on this machine: "GPU" (with its driver), "NVRTC" and "cuBLASLt", each with a
// description, or with the reason why it was not found.
std::vector<std::pair<std::string, std::string>> CudaPieces();

}  // namespace fusec::runtime
