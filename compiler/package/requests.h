#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "passes/per_request.h"

namespace fusec {

// The per-request inputs of an artifact (--per-request), and the part of the model that depends
// only on them.
struct ArtifactRequests {
  PerRequest per_request;
  RequestSplit split;
};

// The value of the key "requests" of a manifest.
nlohmann::ordered_json RequestsJson(const ArtifactRequests& requests);
// Parses that key of a whole manifest; nullopt if the manifest does not have it. Throws the
// exceptions of nlohmann::json if the value has another form.
std::optional<ArtifactRequests> RequestsOf(const nlohmann::ordered_json& manifest);

}  // namespace fusec
