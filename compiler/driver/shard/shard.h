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
  CompileOptions compile;  // `output_path` is the folder that gets all parts
  ShardPlanOptions plan;
  Wire wire = Wire::kExact;
  std::map<std::string, int64_t> dims;  // by symbol, the sizes that the plan is made for
  std::string profile;                  // an .npz with ids of real requests, or ""
};

struct ShardReport {
  nlohmann::ordered_json plan;  // the key "shards" of the manifest
  std::vector<std::string> warnings;
  double seconds = 0;
};

// Compiles a model into artifacts that hold its tables between them, shard_0, shard_1, ..., and one
// of all the rest, dense. A manifest beside them lists these as the steps of one program, which
// every runtime loads as it loads an artifact.
Result<ShardReport> ShardModel(const ShardOptions& options);

}  // namespace fusec
