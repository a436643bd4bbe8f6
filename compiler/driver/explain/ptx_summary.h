#pragma once

#include <string>
#include <vector>

#include "compiler/driver/explain/cubin_reader.h"
#include "compiler/driver/explain/explanation.h"
#include "compiler/driver/explain/occupancy.h"
#include "compiler/driver/explain/ptx_reader.h"
#include "compiler/support/adt.h"

namespace fusec {

// The resources and instructions of a kernel of a GPU target, which can be read without a GPU.
struct KernelResources {
  // Instructions and spills, from compiling the kernel's text again.
  struct Compiled {
    PtxasKernel ptxas;
    InstructionMix mix{};
  };
  std::string name;
  StepCode code;
  int block_size = 0;
  CubinKernel cubin;                   // the machine code that runs
  int64_t shared_bytes = 0;            // static and dynamic shared memory
  std::optional<Occupancy> occupancy;  // nullopt if the limits of the architecture are unknown
  std::optional<Compiled> compiled;    // set by ReadResources only
};

// The resources of all generated kernels, in the order of the steps, from the cubins alone. A CPU
// target is a usage error.
Result<std::vector<KernelResources>> ReadCubinResources(const std::string& artifact,
                                                        const std::string& architecture);
// The same with KernelResources::compiled, for which NVRTC compiles the kernels again; a missing
// NVRTC is a kToolchain error.
Result<std::vector<KernelResources>> ReadResources(const std::string& artifact,
                                                   const std::string& architecture);

// The tables that `explain --ptx` prints, for kernels from ReadResources.
std::string ResourcesText(ArrayRef<KernelResources> kernels, const std::string& architecture);
// `json`, the text of ExplanationJson, with the key "ptx" added to every kernel that has resources.
std::string WithResources(const std::string& json, ArrayRef<KernelResources> kernels);

}  // namespace fusec
