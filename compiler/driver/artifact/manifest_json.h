#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/support/result.h"

namespace fusec {

// The manifest of the artifact in the folder `artifact`: an object.
Result<nlohmann::ordered_json> ReadManifest(const std::string& artifact);

// Whether the manifest is that of a sharded artifact, whose parts (dense, shard_0, ...) have the
// kernels.
bool IsSharded(const nlohmann::ordered_json& manifest);
// Fails if the artifact is sharded, for a `verb` that works only on artifacts with kernels. The
// error names the parts.
Result<void> CheckNotSharded(const std::string& artifact, const std::string& verb);

}  // namespace fusec
