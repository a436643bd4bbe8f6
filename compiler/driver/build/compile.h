#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/driver/build/build_targets.h"
#include "compiler/driver/build/table_tracker.h"
#include "compiler/import/part_lengths.h"
#include "compiler/ir/graph.h"
#include "passes/lineage.h"
#include "passes/pass_manager.h"

namespace fusec {

struct CompileOptions {
  std::string model_path;
  std::string output_path;
  std::vector<std::string> targets = {"native"};  // native, cpu, sm_80, sm_90a, ...
  std::map<std::string, std::pair<int64_t, int64_t>> dim_ranges;
  std::map<std::string, TensorData> frozen_inputs;           // inputs that become constants
  std::map<std::string, TensorData> weights, exported_with;  // see ImportOptions
  std::string matmul_precision = "highest";                  // highest, high, medium, fp8
  double float8_budget = kFloat8Budget;                      // see float8_products.h
  bool round_every_op = false;         // round f16 and bf16 as unfused ops would
  bool batch_invariant = false;        // see PlanOptions
  std::string index_policy = "error";  // error, clamp, wrap, zero
  std::vector<TableStorage> table_storage;
  std::vector<TablePlacement> table_placement;
  std::optional<TableCache> table_cache;
  std::optional<AdapterSlots> adapters;
  PerRequest per_request;
  std::vector<InPlace> in_place;
  std::vector<std::string> updatable;  // patterns of initializers that may get other values later
  std::set<std::string> disabled_fusions;
  std::string dump_ir_directory, dump_kernels_directory;  // "" for none
  std::string cpu_level =
      "both";  // both (x86-64-v3 and v4), one of these, or native (this machine's instructions)
  int cpu_optimization = 3;  // -O of the host compiler
  // Called at the start of every long stage: its name, and the share of the work that is done,
  // 0..1.
  std::function<void(const std::string& stage, double fraction)> progress;
};

struct CompileReport {
  std::vector<std::string> warnings;
  std::vector<std::string> targets;  // as built: "cpu", "sm_90a"
  std::vector<StoredTable> stored_tables;
  std::vector<PassTiming> pass_timings;
  int launches_before = 0;
  std::map<std::string, int> launches;  // by target
  double seconds = 0;
};

// A model after the passes that all targets share, without regions.
struct SimplifiedModel {
  std::unique_ptr<Graph> graph;
  std::vector<std::string> targets;
  ModelTitle title;
  ArtifactContents contents;  // the parts that are known before fusion
  Derivations initializers;
  PassManager manager;  // ran these passes
  TableTracker tables;  // followed the tables through them
};
Result<SimplifiedModel> SimplifyModel(const CompileOptions& options);

// A model after all passes, ready to be planned and built.
struct FusedModel {
  ArtifactContents contents;  // without targets, index sites and files
  std::vector<TargetSource> targets;
  ModelTitle title;
  std::vector<PassTiming> pass_timings;
};
// Neither of these uses `options.output_path`.
Result<FusedModel> FuseSimplified(const SimplifiedModel& model, const CompileOptions& options);
Result<FusedModel> FuseModel(const CompileOptions& options);

// The options with which kernels are planned and compiled, without a progress callback.
BuildOptions BuildOptionsOf(const CompileOptions& options);

// Compiles the model file into the artifact folder. A failure leaves no files behind, and an
// existing folder is replaced only if it is an artifact.
Result<CompileReport> CompileModel(const CompileOptions& options);

// The imported graph before any pass, as CompileModel sees it; for verify, explain and tests.
struct LoadedModel {
  std::unique_ptr<Graph> imported;
  std::vector<std::string> warnings;
  SizeTotals totals;
  std::map<std::string, std::string> constant_names;  // names in the model, by names in the graph
};
Result<LoadedModel> LoadModel(const CompileOptions& options);
}  // namespace fusec
