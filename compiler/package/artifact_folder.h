#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

// Lets `make` fill a new folder next to `path` and then replaces `path` by it, if CheckOutputPath
// allows that. If `make` returns an error or false, `path` is unchanged and the new folder is
// removed; if the process is killed, `path` is unchanged, but the new folder remains. Returns the
// result of `make`.
Result<bool> ReplaceFolder(const std::string& path,
                           function_ref<Result<bool>(const std::string& folder)> make);

// The XXH3-128 hash of the bytes of a file, in the format of manifests.
std::string HashOf(const std::string& bytes);

// The text of manifest.json: the hash of `keys`, followed by `keys`.
std::string ManifestText(const nlohmann::ordered_json& keys);

}  // namespace fusec
