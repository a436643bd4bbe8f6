#include "compiler/driver/compile.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>

#include "compiler/driver/host_compiler.h"
#include "compiler/driver/index_limits.h"
#include "compiler/driver/pipeline.h"
#include "compiler/emit/emit_kernel.h"
#include "compiler/import/import.h"
#include "compiler/ops/op_def.h"
#include "compiler/package/artifact_writer.h"
#include "compiler/package/weights_file.h"
#include "compiler/plan/plan_program.h"
#include "compiler/support/interrupt.h"
#include "passes/not_fused.h"
#include "runtime/src/nvrtc.h"

namespace fusec {

namespace {

// What is said when nobody names a target: this machine's CPU and GPU. Without a GPU that means the
// one servers have.
constexpr const char* kDefaultGpu = "sm_90a";

Result<std::vector<std::string>> ResolveTargets(const std::vector<std::string>& wanted) {
  std::vector<std::string> targets;
  auto add = [&](const std::string& target) {
    if (std::find(targets.begin(), targets.end(), target) == targets.end())
      targets.push_back(target);
  };
  for (const std::string& target : wanted) {
    const bool is_arch = target.rfind("sm_", 0) == 0 && target.size() > 4 &&
                         target.find_first_not_of("0123456789", 3) >= target.size() - 1;
    if (target == "native") {
      add("cpu");
      add(kDefaultGpu);
    } else if (target == "cpu" || is_arch) {
      add(target);
    } else {
      return Fail(ErrorKind::kUsage,
                  "target \"" + target + "\" is none of native, cpu, sm_80, sm_90a, ...");
    }
  }
  if (targets.empty()) return Fail(ErrorKind::kUsage, "no target was given");
  return targets;
}

TargetKind KindOf(const std::string& target) {
  return target == "cpu" ? TargetKind::kCpu : TargetKind::kGpu;
}

PlanOptions PlanFor(const std::string& target, const std::string& matmul_precision) {
  PlanOptions options{KindOf(target), matmul_precision};
  if (options.target == TargetKind::kGpu) options.architecture = std::atoi(target.c_str() + 3);
  return options;
}

// Launches and bytes if every op ran as a kernel of its own; views that leave the bytes in place
// are free there too.
void CountUnfused(const Graph& graph, int& launches, Expr& bytes) {
  for (const auto& node : graph.nodes) {
    const bool is_free = node->kind == OpKind::kConstant || node->kind == OpKind::kReshape ||
                         node->kind == OpKind::kIdentity || node->kind == OpKind::kSymbolicDims;
    if (is_free) continue;
    ++launches;
    for (size_t i = 0; i < node->operands.size(); ++i) {
      const bool is_table = GetOpDef(node->kind).op_class == OpClass::kGather &&
                            node->kind != OpKind::kSegmentReduce && i == 0;
      if (!node->operands[i]) continue;
      bytes = bytes + (is_table ? node->result()->type.Bytes() : node->operands[i]->type.Bytes());
    }
    for (const auto& result : node->results) bytes = bytes + result->type.Bytes();
  }
}

std::vector<const KernelPlan*> KernelsOf(const ProgramPlan& program) {
  std::vector<const KernelPlan*> kernels;
  for (const Step& step : program.steps) {
    if (!step.is_matmul) kernels.push_back(&step.kernel);
  }
  return kernels;
}

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

// One machine-code file to make: which target, which key, which path.
struct Job {
  size_t target;
  std::string key, path;
  std::function<Result<std::string>()> make;
};

Result<void> RunJobs(std::vector<Job>& jobs, ArtifactContents& contents,
                     const CompileOptions& options) {
  std::vector<std::future<Result<std::string>>> results;
  for (Job& job : jobs) results.push_back(std::async(std::launch::async, job.make));
  std::optional<Error> failed;
  for (size_t i = 0; i < jobs.size(); ++i) {
    Result<std::string> bytes = results[i].get();
    if (options.progress)
      options.progress("compiling kernels", 0.3 + 0.6 * (i + 1.0) / jobs.size());
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

// By kind of target, all from one simplified graph.
struct Fused {
  std::shared_ptr<const Graph> graph;
  std::vector<NotFused> not_fused;
};
using FusedGraphs = std::map<TargetKind, Fused>;

Result<FusedGraphs> Fuse(Graph& graph, const std::vector<std::string>& targets, bool round_every_op,
                         PassManager& manager) {
  FUSEC_TRY(manager.Run(graph, SharedPasses(round_every_op)));
  FusedGraphs fused;
  for (const std::string& target : targets) {
    const TargetKind kind = KindOf(target);
    if (fused.count(kind) != 0) continue;
    std::shared_ptr<Graph> copy = graph.Clone();
    manager.dump_prefix = kind == TargetKind::kGpu ? "gpu-" : "cpu-";
    FUSEC_TRY(manager.Run(*copy, FusionPasses(kind)));
    std::vector<NotFused> not_fused = NotFusedEdges(*copy, manager.TakeReport());
    fused[kind] = {std::move(copy), std::move(not_fused)};
  }
  return fused;
}

// The texts of the last target's kernels become files of the artifact, and compiling them jobs.
void AddGpuJob(const std::vector<const KernelPlan*>& kernels, const std::string& target,
               const ModelTitle& title, ArtifactContents& contents, std::vector<Job>& jobs) {
  for (const KernelPlan* kernel : kernels) {
    contents.files["kernels/" + kernel->name + ".cu"] = EmitKernelFile(*kernel, title);
  }
  if (kernels.empty()) return;
  const auto text = std::make_shared<std::string>(EmitGpuModule(kernels, title));
  jobs.push_back({contents.targets.size() - 1, "cubin", "cubin/" + target + ".cubin",
                  [text, target]() -> Result<std::string> {
                    auto cubin = runtime::CompileCached("kernels.cu", *text, target);
                    if (!cubin) return Fail(ErrorKind::kToolchain, cubin.error().message);
                    return *std::move(cubin);
                  }});
}

void AddCpuJobs(const std::vector<const KernelPlan*>& kernels, const ModelTitle& title,
                const CompileOptions& options, ArtifactContents& contents, std::vector<Job>& jobs) {
  const auto text = std::make_shared<std::string>(EmitCpuLibrary(kernels, title));
  contents.files["cpu/kernels.cc"] = *text;
  std::vector<std::string> levels = {"x86-64-v3", "x86-64-v4"};
  if (options.cpu_level != "both") levels = {options.cpu_level};
  for (const std::string& level : levels) {
    jobs.push_back({contents.targets.size() - 1, level, "cpu/kernels-" + level + ".so",
                    [text, level, optimization = options.cpu_optimization] {
                      return CompileHostLibrary(*text, level, optimization);
                    }});
  }
}

}  // namespace

Result<LoadedModel> LoadModel(const CompileOptions& options) {
  ImportOptions import_options;
  import_options.dim_ranges = options.dim_ranges;
  import_options.frozen_inputs = options.frozen_inputs;
  FUSEC_ASSIGN(ImportedModel model, ImportOnnx(options.model_path, import_options));
  return LoadedModel{std::move(model.graph), std::move(model.warnings)};
}

Result<CompileReport> CompileModel(const CompileOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  auto progress = [&](const char* stage, double fraction) {
    if (options.progress) options.progress(stage, fraction);
  };
  FUSEC_ASSIGN(const std::vector<std::string> targets, ResolveTargets(options.targets));
  FUSEC_TRY(CheckOutputPath(options.output_path));

  progress("reading the model", 0.0);
  FUSEC_ASSIGN(LoadedModel model, LoadModel(options));
  Graph& graph = *model.imported;
  CompileReport report;
  report.warnings = model.warnings;
  report.targets = targets;
  ArtifactContents contents;
  CountUnfused(graph, contents.launches_before, contents.bytes_before);
  report.launches_before = contents.launches_before;
  contents.index_limits = FindIndexLimits(graph);
  contents.ascending_inputs = AscendingInputs(graph);

  progress("fusing", 0.1);
  PassManager manager;
  manager.options = {options.disabled_fusions, options.matmul_precision};
  manager.dump_directory = options.dump_ir_directory;
  FUSEC_ASSIGN(const FusedGraphs fused, Fuse(graph, targets, options.round_every_op, manager));
  report.pass_timings = manager.timings();
  if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");

  progress("planning kernels", 0.2);
  contents.matmul_precision = options.matmul_precision;
  contents.round_every_op = options.round_every_op;
  contents.warnings = report.warnings;
  const ModelTitle title{graph.metadata["file"], graph.metadata["opset"]};
  std::vector<Job> jobs;
  for (const std::string& target : targets) {
    const bool gpu = KindOf(target) == TargetKind::kGpu;
    const Fused& made = fused.at(KindOf(target));
    FUSEC_ASSIGN(
        ProgramPlan plan,
        PlanProgram(*made.graph, PlanFor(target, options.matmul_precision), contents.sites));
    report.launches[target] = plan.LaunchCount();
    const char* ir = gpu ? "ir/gpu.ir" : "ir/cpu.ir";
    contents.files[ir] = Print(*made.graph);
    contents.targets.push_back({target, made.graph, std::move(plan), {}, ir, made.not_fused});
    const auto kernels = KernelsOf(contents.targets.back().plan);
    if (gpu)
      AddGpuJob(kernels, target, title, contents, jobs);
    else
      AddCpuJobs(kernels, title, options, contents, jobs);
  }
  FUSEC_TRY(DumpKernels(options.dump_kernels_directory, contents.files));
  progress("compiling kernels", 0.3);
  FUSEC_TRY(RunJobs(jobs, contents, options));
  if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");

  progress("writing the artifact", 0.9);
  FUSEC_TRY(WriteArtifact(options.output_path, contents));
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace fusec
