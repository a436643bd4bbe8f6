#include "compiler/driver/shard/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "compiler/driver/artifact/manifest_json.h"
#include "compiler/driver/shard/demands.h"
#include "compiler/driver/shard/model_parts.h"
#include "compiler/package/artifact_folder.h"
#include "compiler/package/output_path.h"
#include "compiler/package/sharded_manifest.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

// Sizes for the symbols that --plan-dim does not name.
constexpr int64_t kUsualSize = 1024;

Result<std::map<std::string, int64_t>> SizesOf(const Graph& graph,
                                               const std::map<std::string, int64_t>& dims) {
  std::map<std::string, int64_t> sizes;
  for (const DimSymbol& symbol : graph.symbols) {
    const auto given = dims.find(symbol.name);
    const int64_t size =
        given == dims.end() ? std::clamp(kUsualSize, symbol.low, symbol.high) : given->second;
    if (size < symbol.low || size > symbol.high)
      return Fail(ErrorKind::kUsage, fmt::format("--plan-dim {}={}: the model takes {}..{}",
                                                 symbol.name, size, symbol.low, symbol.high));
    sizes[symbol.name] = size;
  }
  for (const auto& [name, size] : dims) {
    if (sizes.count(name) != 0) continue;
    std::vector<std::string> known;
    for (const DimSymbol& symbol : graph.symbols) known.push_back(symbol.name);
    return Fail(ErrorKind::kUsage, fmt::format("--plan-dim {}: the model has {}", name,
                                               known.empty() ? "static dims" : Join(known, ", ")));
  }
  return sizes;
}

// The estimated time of an artifact's steps in microseconds. A step takes the time of its flops or
// that of its bytes, whichever is longer.
Result<double> OwnUs(const std::string& artifact, const ClusterCosts& costs,
                     const std::map<std::string, int64_t>& dims) {
  FUSEC_ASSIGN(const Json manifest, ReadManifest(artifact));
  double us = 0;
  for (const Json& step : manifest.at("targets").front().at("steps")) {
    const auto size = [&](const char* key) -> Result<double> {
      FUSEC_ASSIGN(const Expr expression, Expr::Parse(step.at(key).get<std::string>()));
      return static_cast<double>(expression.Evaluate(dims).value_or(0));
    };
    FUSEC_ASSIGN(const double flops, size("flops"));
    FUSEC_ASSIGN(const double read, size("bytes_read"));
    FUSEC_ASSIGN(const double written, size("bytes_written"));
    us += 1e6 * std::max(flops / costs.dense_flops, (read + written) / costs.row_bandwidth);
  }
  return us;
}

Json PlanJson(const Demands& demands, const ShardPlan& plan, const ShardOptions& options,
              const std::map<std::string, int64_t>& dims) {
  Json shards = Json::array(), kept = Json::array();
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const ShardLoad& load = plan.loads[i];
    Json tables = Json::array();
    for (const PlannedPart& part : plan.shards[i]) {
      const TableDemand& table = demands.tables[part.table];
      Json placed = {{"table", table.table},
                     {"rows", table.rows},
                     {"first_row", part.first_row},
                     {"end_row", part.end_row}};
      int64_t row_bytes = table.row_bytes;
      if (part.end_column != 0) {
        placed["first_column"] = part.first_column;
        placed["end_column"] = part.end_column;
        row_bytes = table.row_bytes / table.columns * (part.end_column - part.first_column);
      }
      placed["bytes"] = (part.end_row - part.first_row) * row_bytes;
      tables.push_back(std::move(placed));
    }
    shards.push_back({{"folder", fmt::format("shard_{}", i)},
                      {"tables", tables},
                      {"table_bytes", load.table_bytes},
                      {"row_bytes", load.row_bytes},
                      {"id_bytes", load.id_bytes},
                      {"wire_bytes", load.wire_bytes},
                      {"us", load.us}});
  }
  for (const KeptTable& table : plan.kept)
    kept.push_back({{"table", demands.tables[table.table].table}, {"why", table.why}});
  const ClusterCosts& costs = options.plan.costs;
  return {{"dims", dims},
          {"profile", !options.profile.empty()},
          {"wire", WireName(options.wire)},
          {"costs",
           {{"row_bandwidth", costs.row_bandwidth},
            {"network_bandwidth", costs.network_bandwidth},
            {"message_us", costs.message_us},
            {"dense_flops", costs.dense_flops}}},
          {"shards", shards},
          {"kept", kept}};
}

// Adds the times of a batch to the plan, which are known once the dense part is compiled.
void AddTimes(const ShardPlan& plan, const ClusterCosts& costs, double own_us, Json& json) {
  const DenseLoad dense = DenseLoadOf(plan, costs, own_us);
  const BatchTimes times = BatchTimesOf(plan, costs, own_us);
  json["dense"] = {{"id_bytes", dense.id_bytes},
                   {"wire_bytes", dense.wire_bytes},
                   {"link_us", dense.link_us},
                   {"us", dense.us}};
  json["expected_us"] = times.expected_us;
  json["worst_us"] = times.worst_us;
}

class PartWriter {
 public:
  PartWriter(const ShardOptions& options, std::string folder)
      : options_(options), folder_(std::move(folder)) {}

  Result<void> Write(const ModelPart& part) {
    FUSEC_ASSIGN(FusedModel fused, FusePart(part, options_.compile));
    BuildOptions build = BuildOptionsOf(options_.compile);
    build.compiled = [&](double fraction) { Progress(part.folder, fraction); };
    FUSEC_TRY(BuildTargets(fused.targets, fused.title, build, fused.contents));
    for (const std::string& warning : fused.contents.warnings)
      warnings_.push_back(part.folder + ": " + warning);
    FUSEC_TRY(WriteArtifact(folder_ + "/" + part.folder, fused.contents));
    parts_.push_back(
        {part.folder, part.model.graph.get(), std::move(fused.contents.tables), part.tables});
    return {};
  }

  ArrayRef<ArtifactPart> parts() const { return parts_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void Progress(const std::string& name, double fraction) const {
    if (!options_.compile.progress) return;
    const auto count = static_cast<double>(options_.plan.shards + 1);
    options_.compile.progress("compiling kernels of " + name,
                              0.1 + 0.9 * (static_cast<double>(parts_.size()) + fraction) / count);
  }

  const ShardOptions& options_;
  const std::string folder_;
  std::vector<ArtifactPart> parts_;
  std::vector<std::string> warnings_;
};

}  // namespace

Result<ShardReport> ShardModel(const ShardOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  FUSEC_TRY(CheckOutputPath(options.compile.output_path));
  FUSEC_ASSIGN(SimplifiedModel model, SimplifyModel(options.compile));
  ShardReport report;
  FUSEC_ASSIGN(const auto dims, SizesOf(*model.graph, options.dims));
  FUSEC_ASSIGN(Demands demands, DemandsOf(model, dims, options.wire));
  if (!options.profile.empty()) FUSEC_TRY(AddProfile(*model.graph, options.profile, demands));
  FUSEC_ASSIGN(const ShardPlan plan, PlanShards(demands.tables, options.plan));
  report.plan = PlanJson(demands, plan, options, dims);
  FUSEC_ASSIGN(const std::vector<ModelPart> parts, TakeApart(model, demands, plan, options.wire));
  FUSEC_TRY(
      ReplaceFolder(options.compile.output_path, [&](const std::string& folder) -> Result<bool> {
        PartWriter writer(options, folder);
        for (const ModelPart& part : parts) FUSEC_TRY(writer.Write(part));
        FUSEC_ASSIGN(const double own_us,
                     OwnUs(folder + "/" + parts.back().folder, options.plan.costs, dims));
        AddTimes(plan, options.plan.costs, own_us, report.plan);
        const std::shared_ptr<const Graph> whole = model.graph->Clone();
        Json manifest = ShardedManifest(whole, model.contents, writer.parts());
        manifest["shards"] = report.plan;
        report.warnings = model.contents.warnings;
        report.warnings.insert(report.warnings.end(), writer.warnings().begin(),
                               writer.warnings().end());
        FUSEC_TRY(WriteShardedManifest(folder, manifest));
        return true;
      }));
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace fusec
