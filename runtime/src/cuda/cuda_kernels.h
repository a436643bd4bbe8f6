#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/src/artifact/artifact.h"
#include "runtime/src/cuda/cuda_context.h"

namespace fusec::runtime {

// Which of the artifact's targets a GPU runs, and whether its machine code fits; if not, the
// kernels' text is compiled.
struct GpuTargetChoice {
  const Target* target = nullptr;
  bool machine_code_fits = false;
};

// `capability` is 90 for 9.0. Machine code for sm_90a fits 9.0 only; for sm_86 it fits 8.6 and 8.9;
// for sm_100f 10.0 to 10.x. Without a fit the target made for the newest GPU that is not newer than
// this one is chosen, else the oldest. The error of an artifact that has only a CPU target is
// FUSEC_NO_DEVICE.
StatusOr<GpuTargetChoice> ChooseGpuTarget(const Manifest& manifest, int capability);

// The architecture to compile for: "sm_90a", or "compute_120" (text for the driver) where NVRTC,
// whose ascending list of capabilities is `supported`, is older than the GPU.
StatusOr<std::string> NvrtcArchitecture(int capability, const std::vector<int>& supported);

// The steps that a GPU can run whose blocks have up to `most_shared_bytes` of shared memory: of
// kernels that are alternatives, one with less serves the sizes of one that asks for more. A kernel
// without alternatives stays.
std::vector<Step> WithinSharedMemory(const std::vector<Step>& steps, int most_shared_bytes);

// The steps for a GPU of `multiprocessors`, of a target that was planned for a GPU of `planned`:
// ranges of alternatives that begin behind a wave of blocks begin behind such a wave there.
std::vector<Step> ForMultiprocessors(std::vector<Step> steps, int planned, int multiprocessors);

struct CudaFunction {
  CUfunction handle = nullptr;
  int cluster_blocks = 0;  // of __cluster_dims__; 0 without
};

// The loaded kernels of a target.
class CudaKernels {
 public:
  // Needs the context to be current. Kernels may use all of the dynamic shared memory that their
  // steps ask for.
  static StatusOr<CudaKernels> Load(const CudaContext& context, const Artifact& artifact,
                                    const GpuTargetChoice& choice);

  const CudaFunction& Find(const std::string& function) const { return functions_.at(function); }

  // Those of codegen_templates/runtime/transfer.cu; null where the artifact has none.
  struct OfRuntime {
    CUfunction copy_inputs = nullptr, end_run = nullptr;
  };
  const OfRuntime& of_runtime() const { return of_runtime_; }

 private:
  std::map<std::string, CudaModule> modules_;  // by key in the target's files, or by source
  std::map<std::string, CudaFunction> functions_;
  OfRuntime of_runtime_;
};

// The kernels of codegen_templates/runtime/update_rows.cu, which only updates of rows need.
StatusOr<CudaModule> LoadRowKernels(const CudaContext& context, const Artifact& artifact,
                                    const GpuTargetChoice& choice);

// Gives kernels of a module by name, which must be there, loaded so that the first launch need not.
Status LoadFunctions(const CudaContext& context, const CudaModule& module,
                     std::initializer_list<std::pair<CUfunction*, const char*>> wanted);

StatusOr<CudaModule> LoadModule(const CudaContext& context, const void* image,
                                std::string_view purpose);

}  // namespace fusec::runtime
