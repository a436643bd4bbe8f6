#include "compiler/driver/tune/artifact_source.h"

#include <nlohmann/json.hpp>

#include "compiler/driver/artifact/artifact_ir.h"
#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/package/float8_products.h"
#include "compiler/package/requests.h"
#include "compiler/package/row_tables.h"
#include "compiler/package/specializations.h"
#include "compiler/package/stored_tables.h"
#include "compiler/support/read_file.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

std::vector<NotFused> NotFusedOf(const Json& json) {
  std::vector<NotFused> edges;
  for (const Json& edge : json) {
    edges.push_back({edge.at("producer"), edge.at("consumer"), edge.at("tensor"),
                     edge.at("producer_region"), edge.at("consumer_region"), edge.at("reason"),
                     edge.at("needed")});
  }
  return edges;
}

Result<void> FillContents(const Json& json, ArtifactContents& contents) {
  contents.matmul_precision = json.at("matmul_precision");
  contents.round_every_op = json.at("rounding") == "every op";
  contents.index_policy = json.value("index_policy", "error");
  contents.batch_invariant = json.value("batch_invariant", false);
  contents.table_cache = json.value("table_cache", "");
  const auto names = [&](const char* key) { return json.value(key, Json::array()); };
  contents.disabled_fusions = names("disabled_fusions").get<std::set<std::string>>();
  contents.updatable = names("updatable").get<std::vector<std::string>>();
  contents.frozen_inputs = names("frozen_inputs").get<std::set<std::string>>();
  contents.float8_budget = Float8BudgetOf(json);
  contents.float8_products = Float8ProductsOf(json);
  contents.stored_tables = StoredTablesOf(json);
  contents.requests = RequestsOf(json);
  contents.adapters = AdaptersOf(json);
  contents.tables = RowTablesOf(json);
  contents.specializations = SpecializationsOf(json);
  contents.warnings = json.at("warnings").get<std::vector<std::string>>();
  contents.launches_before = json.at("before").at("launches");
  FUSEC_ASSIGN(contents.bytes_before, Expr::Parse(json["before"].at("bytes").get<std::string>()));
  for (const Json& input : json.at("inputs")) {
    const std::string name = input.at("name");
    for (const Json& limit : input.value("index_limits", Json::array())) {
      IndexLimits& known = contents.index_limits[name];
      known.axis = input.value("index_axis", 0);
      FUSEC_ASSIGN(known.limits.emplace_back(), Expr::Parse(limit.get<std::string>()));
    }
    if (input.value("ascending", false)) contents.ascending_inputs.insert(name);
    if (input.contains("total")) {
      FUSEC_ASSIGN(contents.totals[name], Expr::Parse(input.at("total").get<std::string>()));
    }
  }
  return {};
}

}  // namespace

Result<ArtifactSource> ReadArtifactSource(const std::string& artifact) {
  const std::string file = artifact + "/manifest.json";
  FUSEC_ASSIGN(const std::string text, ReadWholeFile(file, ErrorKind::kArtifact));
  FUSEC_RUNTIME_TRY(runtime::ParseManifest(text, file));
  ArtifactSource source;
  FUSEC_ASSIGN(source.tuning, ReadTuning(artifact));
  try {
    const Json json = Json::parse(text);
    FUSEC_TRY(FillContents(json, source.contents));
    source.title = {json.at("model"), json.at("opset")};
    if (json.at("files").contains(kWeightsProgram)) {
      FUSEC_ASSIGN(const auto weights, ReadWeightsProgram(artifact));
      source.contents.files[kWeightsProgram] = Print(*weights);
    }
    source.options.matmul_precision = source.contents.matmul_precision;
    source.options.batch_invariant = source.contents.batch_invariant;
    for (const auto& [name, target] : json.at("targets").items()) {
      FUSEC_ASSIGN(auto graph, ReadFusedGraph(artifact, name));
      FUSEC_TRY(LoadPayloads(artifact, *graph));
      source.targets.push_back({name, std::move(graph), NotFusedOf(target.at("not_fused")),
                                source.tuning[name].Winners()});
      if (KindOf(name) != TargetKind::kCpu) continue;
      source.options.cpu_levels.clear();
      for (const auto& level : target.at("files").items())
        source.options.cpu_levels.push_back(level.key());
    }
  } catch (const Json::exception& error) {
    return Fail(ErrorKind::kArtifact, file + ": " + error.what());
  }
  std::erase_if(source.tuning, [](const auto& target) { return target.second.regions.empty(); });
  return source;
}

Result<void> WriteAgain(ArtifactSource source, const std::string& artifact) {
  ArtifactContents& contents = source.contents;
  FUSEC_TRY(BuildTargets(source.targets, source.title, source.options, contents));
  if (!source.tuning.empty()) contents.files[kTuningFile] = TuningText(source.tuning);
  return WriteArtifact(artifact, contents);
}

}  // namespace fusec
