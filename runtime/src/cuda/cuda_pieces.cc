#include "runtime/src/cuda/cuda_pieces.h"

#include "runtime/src/cuda/cuda_context.h"
#include "runtime/src/cuda/cuda_driver.h"
#include "runtime/src/cuda/nvidia_library.h"
#include "runtime/src/cuda/nvrtc.h"

namespace fusec::runtime {
namespace {

StatusOr<Gpu> FirstGpu() {
  FUSEC_RT_ASSIGN(const CudaDriver* driver, CudaDriver::Get());
  return FindGpu(*driver, 0);
}

// From capability 9.0 on, the variant "a" has all instructions of exactly that architecture.
std::string ArchitectureOf(int capability) {
  return "sm_" + std::to_string(capability) + (capability >= 90 ? "a" : "");
}

}  // namespace

std::optional<std::string> GpuArchitecture() {
  const auto gpu = FirstGpu();
  if (!gpu) return std::nullopt;
  return ArchitectureOf(gpu->capability);
}

std::vector<std::pair<std::string, std::string>> CudaPieces() {
  std::vector<std::pair<std::string, std::string>> pieces;
  const auto gpu = FirstGpu();
  pieces.emplace_back("GPU", gpu ? gpu->name + " (" + ArchitectureOf(gpu->capability) + ")"
                                 : "none: " + gpu.error().message);
  const auto nvrtc = Nvrtc::Get();
  pieces.emplace_back(
      "NVRTC", nvrtc ? std::to_string((*nvrtc)->major()) + "." + std::to_string((*nvrtc)->minor())
                     : "none: " + nvrtc.error().message);
  const auto cublaslt = OpenNvidiaLibrary("libcublasLt.so.13", "FUSEC_CUBLASLT");
  pieces.emplace_back("cuBLASLt", cublaslt ? "13" : "none: " + cublaslt.error().message);
  return pieces;
}

}  // namespace fusec::runtime
