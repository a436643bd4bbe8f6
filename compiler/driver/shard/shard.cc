#include "compiler/driver/shard/shard.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/driver/artifact/dim_flags.h"
#include "compiler/driver/edit/editable_artifact.h"
#include "compiler/driver/shard/demands.h"
#include "compiler/package/artifact_folder.h"
#include "compiler/package/output_path.h"
#include "compiler/package/sharded_manifest.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/read_file.h"
#include "compiler/support/terminal.h"
#include "passes/shard_graph.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

// Sizes for the symbols that --dim does not name.
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

std::vector<std::vector<TablePart>> PartsOf(const Demands& demands, const ShardPlan& plan) {
  std::vector<std::vector<TablePart>> shards;
  for (const auto& planned : plan.shards) {
    std::vector<TablePart>& parts = shards.emplace_back();
    for (const PlannedPart& part : planned) {
      const TableDemand& table = demands.tables[part.table];
      TablePart& made = parts.emplace_back(
          TablePart{table.table, table.constants, table.rows, part.first_row, part.end_row, {}});
      made.seam = made.is_whole() ? demands.whole[part.table] : demands.cut_by_rows[part.table];
    }
  }
  return shards;
}

Json PlanJson(const Demands& demands, const ShardPlan& plan, const ShardOptions& options,
              const std::map<std::string, int64_t>& dims) {
  Json shards = Json::array(), kept = Json::array();
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const ShardLoad& load = plan.loads[i];
    Json tables = Json::array();
    for (const PlannedPart& part : plan.shards[i]) {
      const TableDemand& table = demands.tables[part.table];
      tables.push_back({{"table", table.table},
                        {"rows", table.rows},
                        {"first_row", part.first_row},
                        {"end_row", part.end_row},
                        {"bytes", (part.end_row - part.first_row) * table.row_bytes}});
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
          {"costs",
           {{"row_bandwidth", costs.row_bandwidth},
            {"network_bandwidth", costs.network_bandwidth},
            {"message_us", costs.message_us}}},
          {"expected_us", plan.ExpectedUs()},
          {"worst_us", plan.WorstUs()},
          {"shards", shards},
          {"kept", kept}};
}

// What the artifact of a part says beside its own graph.
ArtifactContents ContentsOfPart(const ArtifactContents& whole, const std::set<std::string>& tables,
                                bool is_dense) {
  ArtifactContents contents = whole;
  std::erase_if(contents.stored_tables,
                [&](const StoredTable& table) { return tables.count(table.table) == 0; });
  contents.warnings.clear();  // the whole has them
  if (!is_dense) {
    contents.adapters.reset();
    contents.requests.reset();
  }
  return contents;
}

class PartWriter {
 public:
  PartWriter(SimplifiedModel& model, const ShardOptions& options, std::string folder)
      : model_(model), options_(options), folder_(std::move(folder)) {}

  // `whole`: the tables of the model all of whose rows the part has.
  Result<void> Write(const std::string& name, std::unique_ptr<Graph> graph,
                     const std::set<std::string>& whole, bool is_dense) {
    std::shared_ptr<const Graph> kept = graph->Clone();
    SimplifiedModel part{std::move(graph),    model_.targets,
                         model_.title,        ContentsOfPart(model_.contents, whole, is_dense),
                         model_.initializers, model_.manager,
                         model_.tables};
    FUSEC_ASSIGN(FusedModel fused, FuseSimplified(part, options_.compile));
    std::erase_if(fused.contents.tables,
                  [&](const RowTable& table) { return whole.count(table.table) == 0; });
    BuildOptions build{options_.compile.matmul_precision, options_.compile.batch_invariant};
    if (options_.compile.cpu_level != "both") build.cpu_levels = {options_.compile.cpu_level};
    build.compiled = [&](double fraction) { Progress(name, fraction); };
    FUSEC_TRY(BuildTargets(fused.targets, fused.title, build, fused.contents));
    for (const std::string& warning : fused.contents.warnings)
      warnings_.push_back(name + ": " + warning);
    FUSEC_TRY(WriteArtifact(folder_ + "/" + name, fused.contents));
    FUSEC_TRY(NoteFiles(name));
    parts_.push_back({name, std::move(kept)});
    return {};
  }

  ArrayRef<ArtifactPart> parts() const { return parts_; }
  const std::map<std::string, std::string>& hashes() const { return hashes_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void Progress(const std::string& name, double fraction) const {
    if (!options_.compile.progress) return;
    const auto count = static_cast<double>(options_.plan.shards + 1);
    options_.compile.progress("compiling kernels of " + name,
                              0.1 + 0.9 * (static_cast<double>(parts_.size()) + fraction) / count);
  }

  Result<void> NoteFiles(const std::string& name) {
    const std::string path = name + "/manifest.json";
    FUSEC_ASSIGN(const std::string text, ReadWholeFile(folder_ + "/" + path, ErrorKind::kArtifact));
    hashes_[path] = HashOf(text);
    for (const auto& [file, hash] : Json::parse(text).at("files").items())
      hashes_[name + "/" + file] = hash;
    return {};
  }

  SimplifiedModel& model_;
  const ShardOptions& options_;
  const std::string folder_;
  std::vector<ArtifactPart> parts_;
  std::map<std::string, std::string> hashes_;
  std::vector<std::string> warnings_;
};

std::set<std::string> WholeTables(ArrayRef<TablePart> parts) {
  std::set<std::string> names;
  for (const TablePart& part : parts) {
    if (part.is_whole()) names.insert(part.table);
  }
  return names;
}

}  // namespace

Result<ShardReport> ShardModel(const ShardOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  FUSEC_TRY(CheckOutputPath(options.compile.output_path));
  FUSEC_ASSIGN(SimplifiedModel model, SimplifyModel(options.compile));
  if (!model.graph->run_time_sizes.empty())
    return Fail(ErrorKind::kModel,
                options.compile.model_path +
                    ": an output has a size that only run-time data tell, which cannot be sharded");
  ShardReport report;
  FUSEC_ASSIGN(report.dims, SizesOf(*model.graph, options.dims));
  FUSEC_ASSIGN(Demands demands, DemandsOf(model, report.dims));
  if (!options.profile.empty()) FUSEC_TRY(AddProfile(*model.graph, options.profile, demands));
  FUSEC_ASSIGN(report.plan, PlanShards(demands.tables, options.plan));
  const std::vector<std::vector<TablePart>> parts = PartsOf(demands, report.plan);
  FUSEC_ASSIGN(ShardedGraph taken, TakeApart(*model.graph, parts));
  std::set<std::string> kept;
  for (const KeptTable& table : report.plan.kept) kept.insert(demands.tables[table.table].table);
  FUSEC_TRY(
      ReplaceFolder(options.compile.output_path, [&](const std::string& folder) -> Result<bool> {
        PartWriter writer(model, options, folder);
        for (size_t i = 0; i < parts.size(); ++i)
          FUSEC_TRY(writer.Write(fmt::format("shard_{}", i), std::move(taken.shards[i]),
                                 WholeTables(parts[i]), false));
        FUSEC_TRY(writer.Write("dense", std::move(taken.dense), kept, true));
        const std::shared_ptr<const Graph> whole = model.graph->Clone();
        Json manifest = ShardedManifest(whole, model.contents, writer.parts(), writer.hashes());
        manifest["shards"] = PlanJson(demands, report.plan, options, report.dims);
        report.warnings = model.contents.warnings;
        report.warnings.insert(report.warnings.end(), writer.warnings().begin(),
                               writer.warnings().end());
        FUSEC_TRY(WriteFileIn(folder, "manifest.json", ManifestText(manifest)));
        return true;
      }));
  report.tables = std::move(demands.tables);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace fusec
