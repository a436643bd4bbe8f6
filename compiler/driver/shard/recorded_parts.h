#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/driver/shard/model_parts.h"

namespace fusec {

// Sets the options of a sharded artifact that only the manifests of its parts record: the targets,
// and in which memory tables are.
Result<void> TakePartsOptions(const std::string& artifact, const nlohmann::ordered_json& manifest,
                              CompileOptions& options);

// The parts of a model, with its tables on the same shards as in `plan`, the key "shards" of a
// manifest.
Result<std::vector<ModelPart>> TakeApartAsBefore(const SimplifiedModel& model,
                                                 const nlohmann::ordered_json& plan);

// An error if the artifact is a part of a sharded artifact, because refit has to write all parts
// together.
Result<void> CheckNoPart(const std::string& artifact);

}  // namespace fusec
