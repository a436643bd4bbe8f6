#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/driver/build/compile.h"
#include "compiler/driver/shard/demands.h"
#include "compiler/driver/shard/shard_plan.h"
#include "compiler/package/sharded_manifest.h"

namespace fusec {

// One of the artifacts that a model is taken apart into.
struct ModelPart {
  std::string folder;  // "shard_0", "dense"
  SimplifiedModel model;
  std::map<std::string, PartStart> tables;  // that it has rows of, and where these begin
};

// The parts of a model, shards first; the last is the dense part.
Result<std::vector<ModelPart>> TakeApart(const SimplifiedModel& model, const Demands& demands,
                                         const ShardPlan& plan, Wire wire);

Result<FusedModel> FusePart(const ModelPart& part, const CompileOptions& options);

}  // namespace fusec
