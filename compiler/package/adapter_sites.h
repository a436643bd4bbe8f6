#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "passes/adapter_site.h"

namespace fusec {

// The LoRA adapters of an artifact (--adapters).
struct ArtifactAdapters {
  AdapterSlots slots;
  std::vector<AdapterSite> sites;
};

// The value of the key "adapters" of a manifest.
nlohmann::ordered_json AdaptersJson(const ArtifactAdapters& adapters);
// Parses that key of a whole manifest; nullopt if the manifest does not have it. Throws the
// exceptions of nlohmann::json if the value has another form.
std::optional<ArtifactAdapters> AdaptersOf(const nlohmann::ordered_json& manifest);

}  // namespace fusec
