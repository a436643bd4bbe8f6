#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "passes/per_request.h"

namespace fusec {

// The inputs per request of an artifact (--per-request), and what is computed of them alone.
struct ArtifactRequests {
  PerRequest per_request;
  RequestSplit split;
};

// The key "requests" of a manifest.
nlohmann::ordered_json RequestsJson(const ArtifactRequests& requests);
// That of a whole manifest, if it has it. Throws as nlohmann::json does where the key has another
// form.
std::optional<ArtifactRequests> RequestsOf(const nlohmann::ordered_json& manifest);

}  // namespace fusec
