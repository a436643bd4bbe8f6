#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compiler/package/artifact_writer.h"

namespace fusec {

// Of a table, the first row and column that a part has.
struct PartStart {
  int64_t row = 0, column = 0;
};

// An artifact that runs as a step of a larger one, in a folder of that.
struct ArtifactPart {
  std::string folder;
  const Graph* graph = nullptr;  // without regions
  std::vector<RowTable> tables;
  std::map<std::string, PartStart> starts = {};  // by table
};

// The manifest of a program whose steps are runs of other artifacts (target "shards"), but for the
// hashes of files. `graph`: the whole model. Tensors of parts that bear the name of an output of an
// earlier part are that output, others are the model's. `contents`: of the whole; its key "tables"
// says which parts have the rows of each.
nlohmann::ordered_json ShardedManifest(const std::shared_ptr<const Graph>& graph,
                                       ArtifactContents contents, ArrayRef<ArtifactPart> parts);

// Writes it into a folder, with the hashes that the manifests of the parts there have.
Result<void> WriteShardedManifest(const std::string& folder, nlohmann::ordered_json manifest);

// An artifact was written at `path`: where it is a part of a sharded one in the folder above, the
// manifest there gets its hashes.
Result<void> NoteChangedPart(const std::string& path);

}  // namespace fusec
