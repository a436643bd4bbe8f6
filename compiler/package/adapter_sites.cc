#include "compiler/package/adapter_sites.h"

namespace fusec {

using Json = nlohmann::ordered_json;

Json AdaptersJson(const ArtifactAdapters& adapters) {
  Json sites = Json::array();
  for (const AdapterSite& site : adapters.sites) {
    Json json = {{"module", site.module}, {"down", site.down},       {"up", site.up},
                 {"inputs", site.inputs}, {"outputs", site.outputs}, {"scale", site.scale}};
    const AdapterBanks& banks = site.banks;
    if (banks.outputs != site.outputs) {
      json["banks"] = {{"rank", banks.rank},
                       {"outputs", banks.outputs},
                       {"first_rank", banks.first_rank},
                       {"first_output", banks.first_output}};
    }
    sites.push_back(std::move(json));
  }
  return {{"slots", adapters.slots.slots},
          {"rank", adapters.slots.rank},
          {"stored_rank", StoredRank(adapters.slots.rank)},
          {"input", kAdapterInput},
          {"sites", std::move(sites)}};
}

std::optional<ArtifactAdapters> AdaptersOf(const Json& manifest) {
  const auto found = manifest.find("adapters");
  if (found == manifest.end()) return std::nullopt;
  ArtifactAdapters adapters{{found->at("slots"), found->at("rank")}, {}};
  for (const Json& json : found->at("sites")) {
    AdapterSite site{json.at("module"), json.at("down"),    json.at("up"),
                     json.at("inputs"), json.at("outputs"), json.at("scale")};
    site.banks = {found->at("stored_rank"), site.outputs};
    if (const auto banks = json.find("banks"); banks != json.end()) {
      site.banks = {banks->at("rank"), banks->at("outputs"), banks->at("first_rank"),
                    banks->at("first_output")};
    }
    adapters.sites.push_back(std::move(site));
  }
  return adapters;
}

}  // namespace fusec
