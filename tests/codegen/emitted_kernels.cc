#include "tests/codegen/emitted_kernels.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "compiler/driver/build/build_targets.h"
#include "compiler/driver/build/compile.h"
#include "compiler/driver/build/pipeline.h"
#include "compiler/emit/emit_kernel.h"
#include "compiler/emit/equal_kernels.h"
#include "compiler/plan/plan_program.h"
#include "passes/pass_manager.h"

namespace fusec {

namespace fs = std::filesystem;

Result<std::vector<EmittedKernel>> EmitKernels(const Graph& simplified, const std::string& target,
                                               const std::string& matmul_precision) {
  const PlanOptions options = PlanFor(target, matmul_precision);
  const auto fused = simplified.Clone();
  PassManager manager;
  if (options.gpu) manager.options.block_shared_bytes = options.gpu->block_shared_bytes;
  FUSEC_TRY(manager.Run(*fused, FusionPasses(options.target)));
  std::vector<IndexSite> sites;
  FUSEC_ASSIGN(ProgramPlan plan, PlanProgram(*fused, options, sites));
  ShareEqualKernels(plan);
  std::vector<EmittedKernel> kernels;
  for (const KernelPlan* kernel : FunctionsOf(plan))
    kernels.push_back({kernel->name, EmitKernelFile(*kernel, {"model.onnx", "20"})});
  return kernels;
}

std::vector<std::string> ModelPaths() {
  std::vector<std::string> paths;
  for (const char* folder : {"models", "tests/end_to_end/models", "examples"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(FUSEC_SOURCE_DIR) / folder)) {
      if (entry.path().extension() == ".onnx") paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<std::unique_ptr<Graph>> SimplifiedGraph(const std::string& path) {
  CompileOptions options;
  options.model_path = path;
  FUSEC_ASSIGN(LoadedModel model, LoadModel(options));
  PassManager manager;
  FUSEC_TRY(manager.Run(*model.imported, SharedPasses()));
  return std::move(model.imported);
}

}  // namespace fusec
