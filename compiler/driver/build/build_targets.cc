#include "compiler/driver/build/build_targets.h"

#include <algorithm>
#include <filesystem>
#include <future>

#include "compiler/driver/build/host_compiler.h"
#include "compiler/driver/build/table_tracker.h"
#include "compiler/driver/build/updatable.h"
#include "compiler/emit/emit_launches.h"
#include "compiler/emit/equal_kernels.h"
#include "compiler/package/weights_file.h"
#include "compiler/support/adt.h"
#include "runtime/src/artifact/table.h"
#include "runtime/src/cuda/nvrtc.h"

namespace fusec {

namespace {

// A GPU target has up to kMostModules modules, each of at least kKernelsPerModule kernels if there
// are several.
constexpr size_t kMostModules = 4, kKernelsPerModule = 4;

Result<void> DumpKernels(const std::string& folder,
                         const std::map<std::string, std::string>& files) {
  if (folder.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Fail(ErrorKind::kUsage, "cannot create " + folder + ": " + error.message());
  for (const auto& [path, text] : files) {
    if (path.rfind("kernels/", 0) == 0) FUSEC_TRY(WriteFile(folder + path.substr(7), text));
  }
  return {};
}

// One file of machine code to compile: the number of its target, its key in the manifest, and its
// path in the artifact.
struct Job {
  size_t target;
  std::string key, path;
  std::function<Result<std::string>()> make;
};

Result<void> RunJobs(std::vector<Job>& jobs, ArtifactContents& contents,
                     const BuildOptions& options) {
  std::vector<std::future<Result<std::string>>> results;
  for (Job& job : jobs) results.push_back(std::async(std::launch::async, job.make));
  std::optional<Error> failed;
  for (size_t i = 0; i < jobs.size(); ++i) {
    Result<std::string> bytes = results[i].get();
    if (options.compiled) options.compiled((i + 1.0) / static_cast<double>(jobs.size()));
    if (!bytes) {
      if (!failed) failed = bytes.error();
      continue;
    }
    contents.targets[jobs[i].target].files[jobs[i].key] = jobs[i].path;
    contents.files[jobs[i].path] = *std::move(bytes);
  }
  if (failed) return tl::unexpected<Error>(*failed);
  return {};
}

// Adds the texts of a GPU target's kernels to the files, and their compilation to the jobs. NVRTC
// compiles a module on one core, so many kernels are distributed over several modules.
void AddGpuJobs(size_t number, const ModelTitle& title, ArtifactContents& contents,
                std::vector<Job>& jobs) {
  const std::string& target = contents.targets[number].name;
  const auto kernels = FunctionsOf(contents.targets[number].plan);
  for (const KernelPlan* kernel : kernels) {
    contents.files["kernels/" + kernel->name + ".cu"] = EmitKernelFile(*kernel, title);
  }
  const size_t modules = std::clamp<size_t>(kernels.size() / kKernelsPerModule, 1, kMostModules);
  for (size_t i = 0; i < modules; ++i) {
    std::vector<const KernelPlan*> part;
    for (size_t k = i; k < kernels.size(); k += modules) part.push_back(kernels[k]);
    const auto text = std::make_shared<std::string>(EmitGpuModule(part, title));
    if (i == 0) *text += EmitRuntimeKernels();
    const std::string suffix = i == 0 ? "" : "_" + std::to_string(i + 1);
    const std::string key = "cubin" + suffix;
    for (const KernelPlan* kernel : part) contents.targets[number].modules[kernel->name] = key;
    jobs.push_back({number, key, "cubin/" + target + suffix + ".cubin",
                    [text, target]() -> Result<std::string> {
                      auto cubin = runtime::CompileCached("kernels.cu", *text, target);
                      if (!cubin) return Fail(ErrorKind::kToolchain, cubin.error().message);
                      return *std::move(cubin);
                    }});
  }
}

// Adds the kernels of fusec_update_rows, and those that fill caches of rows. The runtime loads them
// when they are first needed. It compiles their text on GPUs that cannot run the machine code.
void AddRowKernels(size_t number, ArtifactContents& contents, std::vector<Job>& jobs) {
  const std::string target = contents.targets[number].name;
  const std::string text = EmitRowKernels(!contents.table_cache.empty());
  contents.files[runtime::kRowKernelsText] = text;
  jobs.push_back({number, runtime::kRowKernels, "cubin/" + target + "_rows.cubin",
                  [text, target]() -> Result<std::string> {
                    auto cubin = runtime::CompileCached("update_rows.cu", text, target);
                    if (!cubin) return Fail(ErrorKind::kToolchain, cubin.error().message);
                    return *std::move(cubin);
                  }});
}

void AddCpuJobs(size_t number, const ModelTitle& title, const BuildOptions& options,
                ArtifactContents& contents, std::vector<Job>& jobs) {
  const auto kernels = FunctionsOf(contents.targets[number].plan);
  const auto text = std::make_shared<std::string>(EmitCpuLibrary(kernels, title));
  contents.files["cpu/kernels.cc"] = *text;
  const TargetContents& target = contents.targets[number];
  const std::string launches = EmitLaunches(LaunchTexts(target.plan, target.graph->symbols));
  contents.files["cpu/launches.cc"] = launches;
  *text += launches;
  for (const std::string& level : options.cpu_levels) {
    jobs.push_back({number, level, "cpu/kernels-" + level + ".so",
                    [text, level, optimization = options.cpu_optimization,
                     batch_invariant = options.batch_invariant] {
                      return CompileHostLibrary(*text, level, optimization, batch_invariant);
                    }});
  }
}

std::vector<Job> JobsOf(const ModelTitle& title, const BuildOptions& options,
                        ArtifactContents& contents) {
  std::vector<Job> jobs;
  for (size_t i = 0; i < contents.targets.size(); ++i) {
    if (contents.targets[i].plan.target != TargetKind::kGpu) {
      AddCpuJobs(i, title, options, contents, jobs);
      continue;
    }
    AddGpuJobs(i, title, contents, jobs);
    if (HasReplaceableRows(contents.tables) || !contents.table_cache.empty())
      AddRowKernels(i, contents, jobs);
  }
  return jobs;
}

// Warns of tables that --updatable names and that the model looks rows up in, but whose rows cannot
// be updated.
void WarnOfFixedTables(ArtifactContents& contents) {
  for (const RowTable& table : contents.tables) {
    const bool is_wanted = table.is_looked_up && MatchesAny(contents.updatable, table.table);
    if (!is_wanted || table.fixed.empty()) continue;
    contents.warnings.push_back(
        "table \"" + table.table +
        "\" cannot be updated by rows, though --updatable names it: " + table.fixed);
  }
}

Result<void> PlanTargets(ArrayRef<TargetSource> sources, const BuildOptions& options,
                         ArtifactContents& contents) {
  for (const TargetSource& source : sources) {
    PlanOptions plan_options =
        PlanFor(source.name, options.matmul_precision, options.batch_invariant);
    plan_options.tuning = &source.tuning;
    FUSEC_ASSIGN(ProgramPlan plan, PlanProgram(*source.graph, plan_options, contents.sites));
    ShareEqualKernels(plan);
    FixTablesOfPlan(plan, *source.graph, contents.tables);
    const char* ir = plan.target == TargetKind::kGpu ? "ir/gpu.ir" : "ir/cpu.ir";
    contents.files[ir] = Print(*source.graph);
    contents.targets.push_back(
        {source.name, source.graph, std::move(plan), {}, {}, ir, source.not_fused});
  }
  WarnOfFixedTables(contents);
  return {};
}

}  // namespace

TargetKind KindOf(const std::string& target) {
  return target == "cpu" ? TargetKind::kCpu : TargetKind::kGpu;
}

PlanOptions PlanFor(const std::string& target, const std::string& matmul_precision,
                    bool batch_invariant) {
  PlanOptions options{KindOf(target), matmul_precision};
  options.batch_invariant = batch_invariant;
  if (options.target == TargetKind::kGpu) options.gpu = &GpuFor(target);
  return options;
}

Result<void> BuildKernels(const ModelTitle& title, const BuildOptions& options,
                          ArtifactContents& contents) {
  std::vector<Job> jobs = JobsOf(title, options, contents);
  FUSEC_TRY(DumpKernels(options.dump_kernels_directory, contents.files));
  return RunJobs(jobs, contents, options);
}

Result<void> BuildTargets(ArrayRef<TargetSource> sources, const ModelTitle& title,
                          const BuildOptions& options, ArtifactContents& contents) {
  FUSEC_TRY(PlanTargets(sources, options, contents));
  return BuildKernels(title, options, contents);
}

Result<void> EmitTargets(ArrayRef<TargetSource> sources, const ModelTitle& title,
                         const BuildOptions& options, ArtifactContents& contents) {
  FUSEC_TRY(PlanTargets(sources, options, contents));
  JobsOf(title, options, contents);
  return {};
}

}  // namespace fusec
