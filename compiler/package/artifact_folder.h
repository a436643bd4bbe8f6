#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "compiler/support/adt.h"
#include "compiler/support/result.h"

namespace fusec {

// Lets `make` fill a new folder beside `path`, and puts it in the place of what is there, where
// CheckOutputPath allows it. An error of `make`, or false, leaves everything as it was, and so does
// a process that is killed, but for the new folder. The result is that of `make`.
Result<bool> ReplaceFolder(const std::string& path,
                           function_ref<Result<bool>(const std::string& folder)> make);

// The XXH3-128 of a file's bytes, as manifests have it.
std::string HashOf(const std::string& bytes);

// The text of manifest.json: these keys behind their own hash.
std::string ManifestText(const nlohmann::ordered_json& keys);

}  // namespace fusec
