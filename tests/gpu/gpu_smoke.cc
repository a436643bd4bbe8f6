// Runs hand-made artifacts on the first GPU and compares the results with plain loops: `gpu_smoke [--fatal] [WORDS OF A NAME]`. Prints a
// line per case and `N passed, N failed`. --fatal adds two cases in which a kernel faults; after such a case the process cannot use the
// GPU, so name one of them. It should also be run with FUSEC_CUDA_GRAPH=0 and under compute-sanitizer.
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/src/cuda/cuda_kernels.h"
#include "runtime/src/cuda/nvrtc.h"
#include "tests/gpu/matmul_cases.h"
#include "tests/gpu/smoke_cases.h"

namespace fusec::runtime {
namespace {

struct Case {
  std::string name;
  std::function<std::string()> run;
};

int Main(std::span<char*> arguments) {
  bool fatal = false;
  std::string filter;
  for (const char* argument : arguments.subspan(1)) {
    if (std::string(argument) == "--fatal")
      fatal = true;
    else
      filter += (filter.empty() ? "" : " ") + std::string(argument);
  }
  auto context = CudaContext::Create(0);
  if (!context) {
    std::fprintf(stderr, "%s\n", context.error().message.c_str());
    return 4;
  }
  gpu = std::move(*context);
  const auto nvrtc = Nvrtc::Get();
  const auto arch = nvrtc ? NvrtcArchitecture(gpu->capability(), (*nvrtc)->supported_capabilities())
                          : StatusOr<std::string>(tl::unexpected<RuntimeError>(nvrtc.error()));
  if (!arch) {
    std::fprintf(stderr, "%s\n", arch.error().message.c_str());
    return 4;
  }
  native = *arch;
  std::printf("%s, %s\n", gpu->gpu_name().c_str(), native.c_str());

  std::vector<Case> cases = {{"changing dims", ChangingDims},
                             {"changing dims of matmuls", ChangingDimsOfMatmuls},
                             {"what changing dims costs", ChangingBatchCosts},
                             {"changing clusters", ChangingClusters},
                             {"changing dims of matmuls many times", ChangingProductsKeepsGraphs},
                             {"dependent launch", DependentLaunch},
                             {"without machine code", WithoutMachineCode},
                             {"damaged machine code", DamagedMachineCode},
                             {"other gpu", OtherGpu},
                             {"two contexts in two threads", TwoContextsInTwoThreads},
                             {"device memory in place", DeviceMemoryInPlace},
                             {"host outputs, asynchronous", HostOutputsAsync},
                             {"host memory of all kinds", HostMemoryOfAllKinds},
                             {"staging that grows", StagingThatGrows},
                             {"page-locked memory, asynchronous", PageLockedAsync},
                             {"any runs in any order", AnyRunsInAnyOrder},
                             {"index out of range", IndexOutOfRange},
                             {"large weights", LargeWeights},
                             {"loading speed", LoadingSpeed},
                             {"out of memory", OutOfMemory},
                             {"measure", Measure}};
  for (const MatmulCase& c : MatmulCases()) {
    cases.push_back({"matmul " + c.name, [c] { return RunMatmulCase(c, native); }});
  }
  if (fatal) {
    cases.push_back({"fatal error", FatalError});
    cases.push_back({"bad pointer", BadPointer});
  }
  int passed = 0, failed = 0;
  for (const Case& c : cases) {
    if (c.name.find(filter) == std::string::npos) continue;
    const std::string error = c.run();
    (error.empty() ? passed : failed) += 1;
    std::printf("%s %s%s%s\n", error.empty() ? "[ ok ]" : "[FAIL]", c.name.c_str(),
                error.empty() ? "" : ": ", error.c_str());
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace fusec::runtime

int main(int count, char** arguments) {
  return fusec::runtime::Main(std::span(arguments, static_cast<size_t>(count)));
}
