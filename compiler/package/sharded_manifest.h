#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compiler/package/artifact_writer.h"

namespace fusec {

// An artifact that runs as a step of a larger one, in a folder of that.
struct ArtifactPart {
  std::string folder;
  std::shared_ptr<const Graph> graph;
};

// The manifest of a program whose steps are runs of other artifacts (target "shards"). `graph`: the
// whole model. Tensors of parts that bear the name of an output of an earlier part are that output,
// others are the model's. `hashes`: of all files of the parts, by path.
nlohmann::ordered_json ShardedManifest(const std::shared_ptr<const Graph>& graph,
                                       ArtifactContents contents, ArrayRef<ArtifactPart> parts,
                                       const std::map<std::string, std::string>& hashes);

}  // namespace fusec
