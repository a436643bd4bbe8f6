#pragma once

#include <string>
#include <vector>

#include "compiler/driver/explain/cubin_reader.h"
#include "compiler/driver/explain/explanation.h"
#include "compiler/driver/explain/occupancy.h"
#include "compiler/driver/explain/ptx_reader.h"
#include "compiler/support/adt.h"

namespace fusec {

// What a kernel of a GPU target takes and does, told without a GPU.
struct KernelResources {
  // Instructions and spills, from compiling the kernel's text anew.
  struct Compiled {
    PtxasKernel ptxas;
    InstructionMix mix{};
  };
  std::string name;
  StepCode code;
  int block_size = 0;
  CubinKernel cubin;                   // the machine code that runs
  int64_t shared_bytes = 0;            // static and dynamic
  std::optional<Occupancy> occupancy;  // nullopt where the architecture's limits are unknown
  std::optional<Compiled> compiled;    // of ReadResources
};

// Of all generated kernels, in the order of the steps, from the cubin alone. CPU targets are usage
// errors.
Result<std::vector<KernelResources>> ReadCubinResources(const std::string& artifact,
                                                        const std::string& architecture);
// The same, compiled anew; a missing NVRTC is a kToolchain error.
Result<std::vector<KernelResources>> ReadResources(const std::string& artifact,
                                                   const std::string& architecture);

// Of the kernels that ReadResources gave.
std::string ResourcesText(ArrayRef<KernelResources> kernels, const std::string& architecture);
// `json`, ExplanationJson's, with the key "ptx" in every kernel that has resources.
std::string WithResources(const std::string& json, ArrayRef<KernelResources> kernels);

}  // namespace fusec
