#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/driver/build/compile.h"
#include "compiler/driver/shard/demands.h"
#include "compiler/driver/shard/shard_plan.h"
#include "compiler/package/sharded_manifest.h"

namespace fusec {

// A part of a model, which is compiled to an artifact of its own.
struct ModelPart {
  std::string folder;  // "shard_0", "dense"
  SimplifiedModel model;
  std::map<std::string, PartStart> tables;  // tables of which it has rows, and where these begin
};

// The parts of a model in the order of the shards, followed by the dense part.
Result<std::vector<ModelPart>> TakeApart(const SimplifiedModel& model, const Demands& demands,
                                         const ShardPlan& plan, Wire wire);

// A part after all passes.
Result<FusedModel> FusePart(const ModelPart& part, const CompileOptions& options);

}  // namespace fusec
