#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "passes/adapter_site.h"

namespace fusec {

// The adapters of an artifact (--adapters).
struct ArtifactAdapters {
  AdapterSlots slots;
  std::vector<AdapterSite> sites;
};

// The key "adapters" of a manifest.
nlohmann::ordered_json AdaptersJson(const ArtifactAdapters& adapters);
// That of a whole manifest, if it has it. Throws as nlohmann::json does where the key has another
// form.
std::optional<ArtifactAdapters> AdaptersOf(const nlohmann::ordered_json& manifest);

}  // namespace fusec
