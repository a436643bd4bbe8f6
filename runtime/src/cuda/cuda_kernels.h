#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/src/artifact/artifact.h"
#include "runtime/src/cuda/cuda_context.h"

namespace fusec::runtime {

// The artifact's target that a GPU runs, and whether its machine code fits the GPU; if not, the
// source of the kernels is compiled.
struct GpuTargetChoice {
  const Target* target = nullptr;
  bool machine_code_fits = false;
};

// Chooses the target for a GPU; `capability` is 90 for 9.0. Machine code for sm_90a fits 9.0 only;
// for sm_86 it fits 8.6 and 8.9; for sm_100f 10.0 to 10.x. If none fits, the newest target that is
// not newer than the GPU is chosen, or else the oldest target. FUSEC_NO_DEVICE: the artifact has
// only a CPU target.
StatusOr<GpuTargetChoice> ChooseGpuTarget(const Manifest& manifest, int capability);

// The architecture to compile for: "sm_90a", or "compute_120" (PTX, which the driver compiles) if
// NVRTC, whose ascending list of capabilities is `supported`, is older than the GPU.
StatusOr<std::string> NvrtcArchitecture(int capability, const std::vector<int>& supported);

// The steps that a GPU can run whose blocks have at most `most_shared_bytes` of shared memory. If a
// kernel needs more, an alternative that needs less takes over its range of sizes. A kernel without
// alternatives stays.
std::vector<Step> WithinSharedMemory(const std::vector<Step>& steps, int most_shared_bytes);

// Adapts the steps of a target that was planned for a GPU with `planned` multiprocessors to a GPU
// with `multiprocessors`: a range of sizes that begins after one wave of blocks then begins after a
// wave of this GPU (SizeRange::by_waves).
std::vector<Step> ForMultiprocessors(std::vector<Step> steps, int planned, int multiprocessors);

struct CudaFunction {
  CUfunction handle = nullptr;
  int cluster_blocks = 0;  // blocks of a cluster (__cluster_dims__); 0 without clusters
};

// The loaded kernels of a target.
class CudaKernels {
 public:
  // The context must be current. Kernels are allowed the dynamic shared memory that their steps
  // need.
  static StatusOr<CudaKernels> Load(const CudaContext& context, const Artifact& artifact,
                                    const GpuTargetChoice& choice);

  const CudaFunction& Find(const std::string& function) const { return functions_.at(function); }

  // The kernels of codegen_templates/runtime/transfer.cu; null if the artifact does not have them.
  struct OfRuntime {
    CUfunction copy_inputs = nullptr, end_run = nullptr;
  };
  const OfRuntime& of_runtime() const { return of_runtime_; }

 private:
  std::map<std::string, CudaModule> modules_;  // by key in the target's files, or by source file
  std::map<std::string, CudaFunction> functions_;
  OfRuntime of_runtime_;
};

// Loads the kernels of codegen_templates/runtime/update_rows.cu, which only updates of rows need.
StatusOr<CudaModule> LoadRowKernels(const CudaContext& context, const Artifact& artifact,
                                    const GpuTargetChoice& choice);

// Finds functions of a module by name; a missing one is an error. They are loaded completely, so
// that their first launch is not slower.
Status LoadFunctions(const CudaContext& context, const CudaModule& module,
                     std::initializer_list<std::pair<CUfunction*, const char*>> wanted);

StatusOr<CudaModule> LoadModule(const CudaContext& context, const void* image,
                                std::string_view purpose);

}  // namespace fusec::runtime
