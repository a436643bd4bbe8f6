#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/driver/artifact/manifest_json.h"
#include "compiler/driver/build/model_flags.h"
#include "passes/stored_rows.h"

namespace fusec {

// The flags with which an artifact was compiled, as its manifest records them. --freeze is missing,
// because the manifest has only the names of frozen inputs.
Result<ModelFlags> RecordedFlags(const std::string& artifact,
                                 const nlohmann::ordered_json& manifest);

// For each of the artifact's tables, by its name in the model, whether --table-placement put it
// into host memory.
Result<std::map<std::string, bool>> RecordedPlacement(const std::string& artifact,
                                                      const nlohmann::ordered_json& manifest);

// The tables that --table-storage names, and how the artifact stores them.
Result<std::vector<StoredTable>> RecordedTables(const std::string& artifact,
                                                const nlohmann::ordered_json& manifest);

}  // namespace fusec
