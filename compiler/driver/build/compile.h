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
  std::map<std::string, TensorData> frozen_inputs;  // inputs made constants
  std::map<std::string, TensorData> weights;        // in the place of initializers
  std::string matmul_precision = "highest";         // highest, high, medium, fp8
  double float8_budget = kFloat8Budget;             // see float8_products.h
  bool round_every_op = false;                      // half types, as the unfused model would
  bool batch_invariant = false;                     // see PlanOptions
  std::string index_policy = "error";               // error, clamp, wrap, zero
  std::vector<TableStorage> table_storage;
  std::vector<TablePlacement> table_placement;
  std::optional<TableCache> table_cache;
  std::optional<AdapterSlots> adapters;
  PerRequest per_request;
  std::vector<std::string> updatable;  // patterns of initializers that get other values later
  std::set<std::string> disabled_fusions;
  std::string dump_ir_directory, dump_kernels_directory;  // "" for none
  std::string cpu_level =
      "both";  // both (x86-64-v3 and v4), native (this machine only, fastest to compile)
  int cpu_optimization = 3;  // -O of the host compiler
  // Called at every stage that can take long: what is going on and how far it is, 0..1.
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
  ArtifactContents contents;  // what is known of them by then
  Derivations initializers;
  PassManager manager;  // that ran them
  TableTracker tables;  // that followed them
};
Result<SimplifiedModel> SimplifyModel(const CompileOptions& options);

// A model after all passes, to be planned and built.
struct FusedModel {
  ArtifactContents contents;  // without targets, index sites and files
  std::vector<TargetSource> targets;
  ModelTitle title;
  std::vector<PassTiming> pass_timings;
};
// `options.output_path` is not used by these.
Result<FusedModel> FuseSimplified(const SimplifiedModel& model, const CompileOptions& options);
Result<FusedModel> FuseModel(const CompileOptions& options);

// How its kernels are planned and compiled; nobody is told of progress.
BuildOptions BuildOptionsOf(const CompileOptions& options);

// Model file in, artifact folder out. Nothing is left behind on failure, and an existing folder is
// replaced only if it is an artifact.
Result<CompileReport> CompileModel(const CompileOptions& options);

// The imported graph and the same graph after all passes, as CompileModel sees them: for verify,
// explain and tests.
struct LoadedModel {
  std::unique_ptr<Graph> imported;
  std::vector<std::string> warnings;
  SizeTotals totals;
  std::map<std::string, std::string> constant_names;  // the model's, by the graph's
};
Result<LoadedModel> LoadModel(const CompileOptions& options);
}  // namespace fusec
