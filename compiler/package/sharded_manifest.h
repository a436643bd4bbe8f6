#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compiler/package/artifact_writer.h"

namespace fusec {

// The first row and column of a table that a part stores.
struct PartStart {
  int64_t row = 0, column = 0;
};

// An artifact that runs as a step of a larger artifact and is stored in a subfolder of it.
struct ArtifactPart {
  std::string folder;
  const Graph* graph = nullptr;  // without regions
  std::vector<RowTable> tables;
  std::map<std::string, PartStart> starts = {};  // by table
};

// The manifest of a program whose steps are runs of other artifacts (target "shards"), without the
// hashes of files. `graph` is the whole model, and `contents` those of the whole artifact. An input
// of a part that has the name of an output of an earlier part is that output; other tensors are
// those of the model. The key "tables" of the manifest says which parts store the rows of each
// table.
nlohmann::ordered_json ShardedManifest(const std::shared_ptr<const Graph>& graph,
                                       ArtifactContents contents, ArrayRef<ArtifactPart> parts);

// Writes the manifest into a folder, with the hashes of the manifests and files of its parts, which
// are already there.
Result<void> WriteShardedManifest(const std::string& folder, nlohmann::ordered_json manifest);

// Must be called after an artifact was written at `path`: if it is a part of a sharded artifact in
// the parent folder, the hashes in the manifest there are updated.
Result<void> NoteChangedPart(const std::string& path);

}  // namespace fusec
