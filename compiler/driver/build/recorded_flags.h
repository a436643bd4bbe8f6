#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/driver/artifact/manifest_json.h"
#include "compiler/driver/build/model_flags.h"
#include "passes/stored_rows.h"

namespace fusec {

// The flags that an artifact was compiled with, by its manifest, but for --freeze: of these it has
// the names only.
Result<ModelFlags> RecordedFlags(const std::string& artifact,
                                 const nlohmann::ordered_json& manifest);

// Its tables, by the model's names, and whether --table-placement put them into host memory.
Result<std::map<std::string, bool>> RecordedPlacement(const std::string& artifact,
                                                      const nlohmann::ordered_json& manifest);

// How it stores the tables that --table-storage names.
Result<std::vector<StoredTable>> RecordedTables(const std::string& artifact,
                                                const nlohmann::ordered_json& manifest);

}  // namespace fusec
