#pragma once

#include <string>
#include <vector>

#include "compiler/driver/explain/cubin_reader.h"
#include "compiler/driver/explain/explanation.h"
#include "compiler/driver/explain/occupancy.h"
#include "compiler/driver/explain/ptx_reader.h"
#include "compiler/support/adt.h"

namespace fusec {

// What a kernel of a GPU target takes and does, told without a GPU: resources from the cubin that
// runs, instructions and spills from compiling its .cu anew.
struct KernelResources {
  std::string name;
  int block_size = 0;
  CubinKernel cubin;
  PtxasKernel ptxas;
  InstructionMix mix{};
  int64_t shared_bytes = 0;            // static and dynamic
  std::optional<Occupancy> occupancy;  // nullopt where the architecture's limits are unknown
};

// Of all generated kernels, in the order of the steps. CPU targets are usage errors, a missing
// NVRTC is a kToolchain error.
Result<std::vector<KernelResources>> ReadResources(const std::string& artifact,
                                                   const Explanation& explanation);

std::string ResourcesText(ArrayRef<KernelResources> kernels, const std::string& architecture);
// `json`, ExplanationJson's, with the key "ptx" in every kernel that has resources.
std::string WithResources(const std::string& json, ArrayRef<KernelResources> kernels);

}  // namespace fusec
