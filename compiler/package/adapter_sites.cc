#include "compiler/package/adapter_sites.h"

namespace fusec {

using Json = nlohmann::ordered_json;

Json AdaptersJson(const ArtifactAdapters& adapters) {
  Json sites = Json::array();
  for (const AdapterSite& site : adapters.sites) {
    sites.push_back({{"module", site.module},
                     {"down", site.down},
                     {"up", site.up},
                     {"inputs", site.inputs},
                     {"outputs", site.outputs},
                     {"scale", site.scale}});
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
  for (const Json& site : found->at("sites")) {
    adapters.sites.push_back({site.at("module"), site.at("down"), site.at("up"), site.at("inputs"),
                              site.at("outputs"), site.at("scale")});
  }
  return adapters;
}

}  // namespace fusec
