#include "compiler/driver/shard/recorded_parts.h"

#include <algorithm>
#include <filesystem>

#include "compiler/driver/build/recorded_flags.h"
#include "compiler/driver/shard/demands.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

Result<size_t> FindTable(const Demands& demands, const std::string& name) {
  for (size_t i = 0; i < demands.tables.size(); ++i) {
    if (demands.tables[i].table == name) return i;
  }
  return Fail(ErrorKind::kModel,
              "the model has no embedding table \"" + name + "\", of which the shards hold rows");
}

}  // namespace

Result<void> TakePartsOptions(const std::string& artifact, const Json& manifest,
                              CompileOptions& options) {
  options.targets.clear();
  for (const Json& step : manifest.at("targets").at("shards").at("steps")) {
    const std::string part = artifact + "/" + step.at("folder").get<std::string>();
    FUSEC_ASSIGN(const Json of_part, ReadManifest(part));
    if (options.targets.empty()) {
      for (const auto& [name, target] : of_part.at("targets").items())
        options.targets.push_back(name);
    }
    FUSEC_ASSIGN(const ModelFlags flags, RecordedFlags(part, of_part));
    for (const std::string& flag : flags.table_placement) {
      FUSEC_ASSIGN(TablePlacement placement, ParseTablePlacement(flag));
      options.table_placement.push_back(std::move(placement));
    }
  }
  return {};
}

Result<std::vector<ModelPart>> TakeApartAsBefore(const SimplifiedModel& model,
                                                 const Json& recorded) {
  std::map<std::string, int64_t> dims;
  for (const auto& [name, size] : recorded.at("dims").items()) dims[name] = size;
  const Wire wire = ParseWire(recorded.at("wire").get<std::string>()).value_or(Wire::kExact);
  FUSEC_ASSIGN(const Demands demands, DemandsOf(model, dims, wire));
  ShardPlan plan;
  for (const Json& shard : recorded.at("shards")) {
    std::vector<PlannedPart>& parts = plan.shards.emplace_back();
    for (const Json& table : shard.at("tables")) {
      FUSEC_ASSIGN(const size_t number, FindTable(demands, table.at("table")));
      if (demands.tables[number].rows != table.at("rows").get<int64_t>())
        return Fail(ErrorKind::kModel, "table \"" + demands.tables[number].table +
                                           "\" has another number of rows than in the shards");
      const int64_t end_column = table.value("end_column", int64_t{0});
      if (end_column > demands.tables[number].columns)
        return Fail(ErrorKind::kModel, "table \"" + demands.tables[number].table +
                                           "\" cannot be cut by columns as in the shards");
      parts.push_back({number, table.at("first_row"), table.at("end_row"),
                       table.value("first_column", int64_t{0}), end_column});
    }
  }
  for (const Json& kept : recorded.at("kept")) {
    FUSEC_ASSIGN(const size_t number, FindTable(demands, kept.at("table")));
    plan.kept.push_back({number, kept.at("why")});
  }
  return TakeApart(model, demands, plan, wire);
}

Result<void> CheckNoPart(const std::string& artifact) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::weakly_canonical(artifact, error);
  const std::string whole = path.parent_path().string();
  if (!std::filesystem::is_regular_file(whole + "/manifest.json", error)) return {};
  const auto manifest = ReadManifest(whole);
  if (!manifest || !IsSharded(*manifest)) return {};
  return Fail(ErrorKind::kUsage, artifact + " is a part of the sharded artifact " + whole +
                                     ", expected the whole artifact");
}

}  // namespace fusec
