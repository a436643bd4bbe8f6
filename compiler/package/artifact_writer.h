#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/package/adapter_sites.h"
#include "compiler/package/requests.h"
#include "compiler/package/row_tables.h"
#include "compiler/plan/program_plan.h"
#include "compiler/region/index_limits.h"
#include "passes/not_fused.h"
#include "passes/specialization.h"
#include "passes/stored_rows.h"

namespace fusec {

// One target of an artifact: its plan, and the files that hold its machine code ("cubin" ->
// "cubin/sm_90a.cubin", "cubin_2" -> "cubin/sm_90a_2.cubin").
struct TargetContents {
  std::string name;                    // "cpu", "sm_90a"
  std::shared_ptr<const Graph> graph;  // fused for this target: constants and regions only
  ProgramPlan plan;
  std::map<std::string, std::string> files;
  std::map<std::string, std::string> modules = {};  // GPUs: kernel -> key in `files`
  std::string ir = "";                              // file with the graph as text, "ir/gpu.ir"
  std::vector<NotFused> not_fused = {};
};

// Everything that goes into the folder except the manifest and the weights, which the writer
// creates.
struct ArtifactContents {
  std::vector<TargetContents>
      targets;  // at least one; their graphs have the same inputs and outputs
  std::vector<IndexSite> sites;
  std::map<std::string, IndexLimits> index_limits;  // by input; for random inputs
  std::set<std::string> ascending_inputs;           // for random inputs
  std::map<std::string, Expr> totals;        // of lengths and ascending offsets; for random inputs
  std::map<std::string, std::string> files;  // relative path -> bytes
  std::string matmul_precision;
  double float8_budget = kFloat8Budget;
  std::vector<Float8Product> float8_products;
  bool round_every_op = false;   // f16 and bf16 values are rounded after every op
  bool batch_invariant = false;  // see PlanOptions
  std::string index_policy = "error";
  std::set<std::string> disabled_fusions, frozen_inputs;  // names
  std::vector<std::string> updatable;                     // patterns of names
  std::vector<StoredTable> stored_tables;
  std::optional<ArtifactRequests> requests;
  std::optional<ArtifactAdapters> adapters;
  std::string table_cache;  // the value of --table-cache, "" for none
  std::vector<RowTable> tables;
  std::vector<Specialization> specializations;
  int launches_before = 0;
  Expr bytes_before;
  std::vector<std::string> warnings;
};

inline constexpr const char* kWeightsFile = "weights.safetensors";

// The manifest and the weights file of an artifact. The contents must outlive it.
class ArtifactImage {
 public:
  explicit ArtifactImage(const ArtifactContents& contents);
  ~ArtifactImage();

  // The manifest. `hashes` are those of all other files, by path.
  nlohmann::ordered_json Manifest(const std::map<std::string, std::string>& hashes) const;
  // Writes the weights file into a folder and returns its hash.
  Result<std::string> WriteWeights(const std::string& folder) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Writes the folder described in runtime/ARTIFACT.md, if CheckOutputPath allows it. The folder is
// first written next to `path` and then renamed to `path`, so that a failure leaves nothing behind.
// Equal contents give equal bytes.
Result<void> WriteArtifact(const std::string& path, const ArtifactContents& contents);

}  // namespace fusec
