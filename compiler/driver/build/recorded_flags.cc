#include "compiler/driver/build/recorded_flags.h"

#include "compiler/package/adapter_sites.h"
#include "compiler/package/float8_products.h"
#include "compiler/package/placed_tables.h"
#include "compiler/package/requests.h"
#include "compiler/package/row_tables.h"
#include "compiler/package/stored_tables.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

std::string FileOf(const std::string& artifact) { return artifact + "/manifest.json"; }

// The result of `read`, which reads keys of the manifest, or an error if a key is missing or has
// another type.
template <class Read>
auto Reading(const std::string& artifact, const Read& read) -> Result<decltype(read())> {
  try {
    return read();
  } catch (const Json::exception& error) {
    return Fail(ErrorKind::kArtifact, FileOf(artifact) + ": " + error.what());
  }
}

}  // namespace

Result<ModelFlags> RecordedFlags(const std::string& artifact, const Json& manifest) {
  return Reading(artifact, [&] {
    ModelFlags flags;
    flags.matmul_precision = manifest.at("matmul_precision");
    if (flags.matmul_precision == "fp8") flags.float8_budget = Float8BudgetOf(manifest);
    flags.index_policy = manifest.value("index_policy", "error");
    flags.round_every_op = manifest.at("rounding") == "every op";
    flags.batch_invariant = manifest.value("batch_invariant", false);
    flags.disabled_fusions =
        manifest.value("disabled_fusions", Json::array()).get<std::vector<std::string>>();
    flags.updatable = manifest.value("updatable", Json::array()).get<std::vector<std::string>>();
    for (const StoredTable& table : StoredTablesOf(manifest))
      flags.table_storage.push_back(AsPattern(table.table) + "=" + table.storage);
    for (const PlacedTable& table : PlacedTablesOf(manifest))
      flags.table_placement.push_back(AsPattern(table.table) + "=host");
    if (const auto requests = RequestsOf(manifest)) {
      flags.per_request = requests->per_request.inputs;
      flags.request_map = requests->per_request.is_mapped;
    }
    for (const Json& output : manifest.at("outputs")) {
      if (output.contains("in_place"))
        flags.in_place.push_back(output.at("name").get<std::string>() + "=" +
                                 output.at("in_place").get<std::string>());
    }
    if (manifest.contains("table_cache")) flags.table_cache = manifest.at("table_cache");
    if (const auto adapters = AdaptersOf(manifest)) flags.adapters = AdaptersText(adapters->slots);
    return flags;
  });
}

Result<std::map<std::string, bool>> RecordedPlacement(const std::string& artifact,
                                                      const Json& manifest) {
  return Reading(artifact, [&] {
    std::map<std::string, bool> on_host;
    for (const RowTable& table : RowTablesOf(manifest)) on_host[table.table] = false;
    for (const PlacedTable& table : PlacedTablesOf(manifest)) on_host[table.table] = true;
    return on_host;
  });
}

Result<std::vector<StoredTable>> RecordedTables(const std::string& artifact, const Json& manifest) {
  return Reading(artifact, [&] { return StoredTablesOf(manifest); });
}

}  // namespace fusec
