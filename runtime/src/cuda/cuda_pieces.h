#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fusec::runtime {

// The architecture to compile for so that the first GPU of this machine is used fully, such as
// "sm_90a"; nothing without a GPU or driver.
std::optional<std::string> GpuArchitecture();

// Which parts of CUDA are here (the GPU speaks for its driver): {"GPU", "NVRTC", "cuBLASLt"} ->
// what was found, or why it was not.
std::vector<std::pair<std::string, std::string>> CudaPieces();

}  // namespace fusec::runtime
