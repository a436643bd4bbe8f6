#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/driver/build/compile.h"
#include "compiler/driver/shard/shard_plan.h"
#include "passes/shard_graph.h"

namespace fusec {

struct ShardOptions {
  CompileOptions compile;  // `output_path` is the folder into which all parts are written
  ShardPlanOptions plan;
  Wire wire = Wire::kExact;
  std::map<std::string, int64_t> dims;  // the sizes for which the plan is made, by symbol
  std::string profile;                  // an .npz file with ids of real requests, or ""
};

struct ShardReport {
  nlohmann::ordered_json plan;  // the key "shards" of the manifest
  std::vector<std::string> warnings;
  double seconds = 0;
};

// Compiles a model into several artifacts: shard_0, shard_1, ..., which hold its tables, and dense,
// which holds the rest of the model. A manifest beside them lists them as the steps of one program,
// so that the folder can be loaded like any artifact.
Result<ShardReport> ShardModel(const ShardOptions& options);

}  // namespace fusec
