#include "compiler/driver/build/compile.h"

#include <algorithm>
#include <chrono>
#include <tuple>

#include "compiler/driver/artifact/artifact_ir.h"
#include "compiler/driver/build/batch_sums.h"
#include "compiler/driver/build/model_flags.h"
#include "compiler/driver/build/pipeline.h"
#include "compiler/driver/build/table_tracker.h"
#include "compiler/driver/build/updatable.h"
#include "compiler/import/import.h"
#include "compiler/ir/host_table.h"
#include "compiler/package/output_path.h"
#include "compiler/region/index_limits.h"
#include "compiler/region/traffic.h"
#include "compiler/support/adt.h"
#include "compiler/support/gpu.h"
#include "compiler/support/interrupt.h"
#include "passes/adapter_site.h"
#include "passes/merge_lora.h"
#include "passes/weights_program.h"
#include "runtime/src/cuda/cuda_pieces.h"

namespace fusec {

namespace {

// The GPU that the target "native", the default, stands for besides the CPU: the first one of this
// machine or, if there is none or the compiler does not know it, sm_90a.
std::string NativeGpu() {
  const auto architecture = runtime::GpuArchitecture();
  return architecture && FindGpu(*architecture) != nullptr ? *architecture : "sm_90a";
}

Result<std::vector<std::string>> ResolveTargets(ArrayRef<std::string> wanted) {
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
      add(NativeGpu());
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

// Adds up launches and bytes moved if every op ran as a kernel of its own. Views that leave the
// bytes in place cost nothing.
void CountUnfused(const Graph& graph, int& launches, Expr& bytes) {
  const Ranges ranges = graph.SymbolRanges();
  for (const auto& node : graph.nodes) {
    const bool is_free = node->kind == OpKind::kConstant || node->kind == OpKind::kReshape ||
                         node->kind == OpKind::kIdentity || node->kind == OpKind::kSymbolicDims;
    if (is_free) continue;
    ++launches;
    for (size_t i = 0; i < node->operands.size(); ++i) {
      if (node->operands[i]) bytes = bytes + BytesRead(*node, i, ranges);
    }
    for (const auto& result : node->results) bytes = bytes + result->type.Bytes();
  }
}

// Warnings of tables that --table-placement puts in host memory but that are not in the fused
// graph, because passes replaced them by constants computed from them.
std::vector<std::string> UnplacedTables(const Graph& fused, ArrayRef<RowTable> tables,
                                        const CompileOptions& options) {
  std::set<std::string> on_host;
  for (const auto& node : fused.nodes) {
    if (IsHostTable(node->result())) on_host.insert(node->Get<std::string>(kHostTable));
  }
  std::vector<std::string> warnings;
  for (const RowTable& table : tables) {
    const bool is_wanted = LiesOnHost(options.table_placement, table.table);
    if (!is_wanted || table.fixed.empty() || on_host.count(table.table) != 0) continue;
    warnings.push_back("table \"" + table.table +
                       "\" is not in host memory (--table-placement): " + table.fixed);
  }
  return warnings;
}

// The fused graph for one kind of target (CPU or GPU).
struct Fused {
  std::shared_ptr<const Graph> graph;
  std::vector<NotFused> not_fused;
};

// PassOptions::block_shared_bytes for these targets: the least of all GPUs, 0 without tensor cores.
int64_t BlockSharedBytes(ArrayRef<std::string> targets, const std::string& matmul_precision) {
  int64_t least = INT64_MAX;
  for (const std::string& target : targets) {
    const PlanOptions plan = PlanFor(target, matmul_precision);
    if (plan.target != TargetKind::kGpu) continue;
    least = std::min<int64_t>(least, HasTensorCores(plan) ? plan.gpu->block_shared_bytes : 0);
  }
  return least == INT64_MAX ? 0 : least;
}

// PassOptions::has_clusters for these targets.
bool HaveClusters(ArrayRef<std::string> targets) {
  return std::all_of(targets.begin(), targets.end(), [](const std::string& target) {
    const PlanOptions plan = PlanFor(target, "highest");
    return plan.target != TargetKind::kGpu || plan.gpu->has.clusters;
  });
}

// The first target whose GPU cannot multiply fp8 matrices; nullopt if there is none, or if the
// products are not to be in fp8.
std::optional<std::string> TargetWithoutFloat8(ArrayRef<std::string> targets,
                                               const std::string& matmul_precision) {
  if (matmul_precision != "fp8") return std::nullopt;
  for (const std::string& target : targets) {
    const PlanOptions plan = PlanFor(target, matmul_precision);
    if (plan.target == TargetKind::kGpu && !plan.gpu->has.warpgroup_products) return target;
  }
  return std::nullopt;
}

// Warnings of adapters whose merged weights would not be finite.
std::vector<std::string> UnmergedAdapters(const PassReport& report) {
  std::vector<std::string> warnings;
  for (const Refusal& refusal : report.refusals) {
    if (refusal.reason == kNotFinite)
      warnings.push_back("adapter \"" + refusal.value + "\" is not merged: " + kNotFinite);
  }
  return warnings;
}

// Turns an input error of a pass into an error of the model: passes compute only with the model's
// constants, so bad data are the model's.
Error InModel(const std::string& path, Error error) {
  if (error.kind != ErrorKind::kInput) return error;
  return {ErrorKind::kModel, path + ": " + error.message};
}

// Calls the tracker after each pass that changes the graph.
void Follow(TableTracker& tracker, PassManager& manager) {
  manager.watch_changes = [&](const Graph& changed, const std::string& pass) {
    tracker.Watch(changed, pass, manager.report().stored_tables);
  };
}

std::string LargerTableWarning(const StoredTable& table) {
  return "table \"" + table.table + "\" takes " + std::to_string(table.bytes) + " bytes as " +
         table.storage + ", more than the " + std::to_string(table.bytes_before) +
         " of the model: its rows are short (--table-storage)";
}

void AddLineage(ArrayRef<TargetSource> targets, const Derivations& initializers,
                const std::map<std::string, std::string>& names, ArtifactContents& contents) {
  std::vector<std::shared_ptr<const Graph>> graphs;
  for (const TargetSource& target : targets) graphs.push_back(target.graph);
  const std::vector<FinalConstant> constants = FinalConstants(graphs);
  contents.files[kWeightsProgram] = Print(*WeightsProgram(initializers, constants, names));
  contents.specializations = Specializations(initializers, constants, names);
}

// An error if lengths or offsets of bags are inputs per request: they give the length of another
// input, which has rows for all items.
Result<void> CheckNoLengths(const Graph& graph, const SizeTotals& totals,
                            const PerRequest& per_request) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const std::string& name = graph.InputName(i);
    const bool has_lengths = totals.of_lengths.count(name) + totals.of_offsets.count(name) > 0;
    if (!has_lengths || !IsPerRequest(name, per_request)) continue;
    return Fail(ErrorKind::kUsage, "--per-request: input \"" + name +
                                       "\" splits a tensor of run-time length, expected inputs "
                                       "with a row for each item");
  }
  return {};
}

void AddWarnings(const std::vector<std::string>& warnings, ArtifactContents& contents) {
  contents.warnings.insert(contents.warnings.end(), warnings.begin(), warnings.end());
}

// The contents of an artifact that follow from the imported model and the options.
ArtifactContents ContentsOf(LoadedModel& model, const CompileOptions& options) {
  const Graph& graph = *model.imported;
  ArtifactContents contents;
  contents.warnings = model.warnings;
  CountUnfused(graph, contents.launches_before, contents.bytes_before);
  contents.index_limits = FindIndexLimits(graph);
  contents.ascending_inputs = AscendingInputs(graph);
  contents.totals = std::move(model.totals.of_lengths);
  for (auto& [name, total] : model.totals.of_offsets) {
    contents.ascending_inputs.insert(name);
    contents.totals[name] = std::move(total);
  }
  contents.matmul_precision = options.matmul_precision;
  contents.float8_budget = options.float8_budget;
  contents.round_every_op = options.round_every_op;
  contents.batch_invariant = options.batch_invariant;
  contents.index_policy = options.index_policy;
  contents.updatable = options.updatable;
  contents.disabled_fusions = options.disabled_fusions;
  for (const auto& [name, data] : options.frozen_inputs) contents.frozen_inputs.insert(name);
  if (options.table_cache) contents.table_cache = TableCacheText(*options.table_cache);
  return contents;
}

}  // namespace

Result<LoadedModel> LoadModel(const CompileOptions& options) {
  ImportOptions import_options;
  import_options.dim_ranges = options.dim_ranges;
  import_options.in_place = options.in_place;
  import_options.frozen_inputs = options.frozen_inputs;
  import_options.weights = options.weights;
  import_options.exported_with = options.exported_with;
  // The dim `requests` is not in the model: DeclarePerRequest gives it to the inputs per request.
  DimSymbol requests{kRequests};
  if (const auto range = import_options.dim_ranges.find(kRequests);
      options.per_request.is_mapped && range != import_options.dim_ranges.end()) {
    std::tie(requests.low, requests.high) = range->second;
    import_options.dim_ranges.erase(range);
  }
  FUSEC_ASSIGN(ImportedModel model, ImportOnnx(options.model_path, import_options));
  FUSEC_TRY(CheckNoLengths(*model.graph, model.totals, options.per_request));
  FUSEC_TRY(DeclarePerRequest(*model.graph, options.per_request, requests));
  return LoadedModel{std::move(model.graph), std::move(model.warnings), std::move(model.totals),
                     std::move(model.constant_names)};
}

Result<SimplifiedModel> SimplifyModel(const CompileOptions& options) {
  auto progress = [&](const char* stage, double fraction) {
    if (options.progress) options.progress(stage, fraction);
  };
  FUSEC_ASSIGN(std::vector<std::string> targets, ResolveTargets(options.targets));
  progress("reading the model", 0.0);
  FUSEC_ASSIGN(LoadedModel model, LoadModel(options));
  Graph& graph = *model.imported;
  FUSEC_TRY(MarkUpdatable(options.updatable, model.constant_names, graph));
  Derivations initializers = MarkInitializers(graph, &model.constant_names);
  ArtifactContents contents = ContentsOf(model, options);

  progress("fusing", 0.1);
  PassManager manager;
  manager.options = {options.disabled_fusions,
                     options.matmul_precision,
                     options.index_policy,
                     options.table_storage,
                     std::move(model.constant_names),
                     options.adapters,
                     options.table_placement,
                     options.per_request,
                     options.table_cache,
                     BlockSharedBytes(targets, options.matmul_precision),
                     options.float8_budget};
  if (const auto without = TargetWithoutFloat8(targets, options.matmul_precision)) {
    manager.options.has_float8_products = false;
    contents.warnings.push_back("no matrix product uses fp8 (--matmul-precision fp8): target " +
                                *without + " cannot multiply such numbers, sm_90a can");
  }
  manager.options.has_clusters = HaveClusters(targets);
  manager.options.in_place = options.in_place;
  manager.dump_directory = options.dump_ir_directory;
  TableTracker tables(graph, manager.options.constant_names);
  Follow(tables, manager);
  const auto simplified = manager.Run(graph, SharedPasses(options.round_every_op));
  manager.watch_changes = nullptr;
  if (!simplified) return tl::unexpected(InModel(options.model_path, simplified.error()));
  AddWarnings(UnmergedAdapters(manager.report()), contents);
  if (options.batch_invariant) AddWarnings(SumsOverBatch(graph), contents);
  contents.stored_tables = manager.report().stored_tables;
  if (options.adapters) {
    contents.adapters = ArtifactAdapters{*options.adapters, manager.report().adapter_sites};
    // Random data select the model's own adapter (slot 0), whose answer the interpreter and
    // onnxruntime know.
    contents.index_limits[kAdapterInput] = {0, {1}};
  }
  if (!options.per_request.inputs.empty())
    contents.requests = ArtifactRequests{options.per_request, manager.report().request_split};
  for (const StoredTable& table : contents.stored_tables) {
    if (table.bytes > table.bytes_before) contents.warnings.push_back(LargerTableWarning(table));
  }
  ModelTitle title{graph.metadata["file"], graph.metadata["opset"]};
  return SimplifiedModel{std::move(model.imported), std::move(targets),      std::move(title),
                         std::move(contents),       std::move(initializers), std::move(manager),
                         std::move(tables)};
}

Result<FusedModel> FuseSimplified(const SimplifiedModel& model, const CompileOptions& options) {
  FusedModel result{model.contents, {}, model.title, {}};
  ArtifactContents& contents = result.contents;
  PassManager manager = model.manager;
  std::map<TargetKind, Fused> by_kind;
  std::vector<std::vector<RowTable>> tables;
  std::vector<AdapterSite> sites;  // of all targets, which may have joined different layers
  for (const std::string& target : model.targets) {
    const TargetKind kind = KindOf(target);
    if (by_kind.count(kind) != 0) continue;
    std::shared_ptr<Graph> copy = model.graph->Clone();
    manager.dump_prefix = kind == TargetKind::kGpu ? "gpu-" : "cpu-";
    TableTracker tracker = model.tables;
    Follow(tracker, manager);
    if (model.contents.adapters) manager.SetAdapterSites(model.contents.adapters->sites);
    const auto fused = manager.Run(*copy, FusionPasses(kind));
    if (!fused) return tl::unexpected(InModel(options.model_path, fused.error()));
    tables.push_back(tracker.Finish(*copy));
    if (kind == TargetKind::kGpu)
      AddWarnings(UnplacedTables(*copy, tables.back(), options), contents);
    PassReport report = manager.TakeReport();
    if (kind == TargetKind::kGpu) contents.float8_products = std::move(report.float8_products);
    for (AdapterSite& site : report.adapter_sites) {
      if (std::find(sites.begin(), sites.end(), site) == sites.end())
        sites.push_back(std::move(site));
    }
    std::vector<NotFused> not_fused = NotFusedEdges(*copy, std::move(report));
    by_kind[kind] = {std::move(copy), std::move(not_fused)};
  }
  result.pass_timings = manager.timings();
  contents.tables = MergeTables(tables);
  if (contents.adapters) contents.adapters->sites = std::move(sites);
  if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
  for (const std::string& target : model.targets) {
    const Fused& made = by_kind.at(KindOf(target));
    result.targets.push_back({target, made.graph, made.not_fused});
  }
  AddLineage(result.targets, model.initializers, manager.options.constant_names, contents);
  return result;
}

BuildOptions BuildOptionsOf(const CompileOptions& options) {
  BuildOptions build{options.matmul_precision, options.batch_invariant};
  if (options.cpu_level != "both") build.cpu_levels = {options.cpu_level};
  build.cpu_optimization = options.cpu_optimization;
  build.dump_kernels_directory = options.dump_kernels_directory;
  return build;
}

Result<FusedModel> FuseModel(const CompileOptions& options) {
  FUSEC_ASSIGN(const SimplifiedModel model, SimplifyModel(options));
  return FuseSimplified(model, options);
}

Result<CompileReport> CompileModel(const CompileOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  auto progress = [&](const char* stage, double fraction) {
    if (options.progress) options.progress(stage, fraction);
  };
  FUSEC_TRY(ResolveTargets(options.targets));
  FUSEC_TRY(CheckOutputPath(options.output_path));
  FUSEC_ASSIGN(FusedModel model, FuseModel(options));
  ArtifactContents& contents = model.contents;

  progress("planning kernels", 0.2);
  BuildOptions build = BuildOptionsOf(options);
  build.compiled = [&](double fraction) { progress("compiling kernels", 0.2 + 0.7 * fraction); };
  FUSEC_TRY(BuildTargets(model.targets, model.title, build, contents));
  CompileReport report;
  report.warnings = contents.warnings;
  report.stored_tables = contents.stored_tables;
  report.pass_timings = std::move(model.pass_timings);
  report.launches_before = contents.launches_before;
  for (const TargetContents& target : contents.targets) {
    report.targets.push_back(target.name);
    report.launches[target.name] = target.plan.LaunchCount();
  }
  if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");

  progress("writing the artifact", 0.9);
  FUSEC_TRY(WriteArtifact(options.output_path, contents));
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace fusec
