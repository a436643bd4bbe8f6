#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace fusec {

// What fusec explain says of the key "shards" of a manifest: a line for each shard, its tables, and
// those of the dense part. Throws as nlohmann::json does where the key has another form.
std::string ShardPlanText(const nlohmann::ordered_json& plan);

}  // namespace fusec
