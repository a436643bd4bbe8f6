#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace fusec {

// The text that fusec explain prints for `plan`, the key "shards" of a manifest: the planned time,
// a line for each shard with its tables, and the dense part with its tables. Throws
// nlohmann::json::exception if the key has another form.
std::string ShardPlanText(const nlohmann::ordered_json& plan);

}  // namespace fusec
