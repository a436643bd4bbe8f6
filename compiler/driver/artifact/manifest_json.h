#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/support/result.h"

namespace fusec {

// The manifest of the artifact in the folder `artifact`: an object.
Result<nlohmann::ordered_json> ReadManifest(const std::string& artifact);

// Whether it is that of a sharded artifact, whose parts have the kernels.
bool IsSharded(const nlohmann::ordered_json& manifest);
// An error where an artifact is sharded and `verb` works on one that has kernels: it names the
// parts.
Result<void> CheckNotSharded(const std::string& artifact, const std::string& verb);

}  // namespace fusec
