#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/driver/shard/model_parts.h"

namespace fusec {

// What the manifests of parts say of how a sharded artifact was compiled, beside its own: targets,
// and where tables lie.
Result<void> TakePartsOptions(const std::string& artifact, const nlohmann::ordered_json& manifest,
                              CompileOptions& options);

// The parts of a model whose tables lie where a plan put them. `plan`: the key "shards" of the
// manifest.
Result<std::vector<ModelPart>> TakeApartAsBefore(const SimplifiedModel& model,
                                                 const nlohmann::ordered_json& plan);

// An error for an artifact that is a part of a sharded one, of which alone it cannot be made again.
Result<void> CheckNoPart(const std::string& artifact);

}  // namespace fusec
