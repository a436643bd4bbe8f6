#include "compiler/driver/artifact/manifest_json.h"

#include "compiler/support/read_file.h"

namespace fusec {

using Json = nlohmann::ordered_json;

Result<Json> ReadManifest(const std::string& artifact) {
  const std::string file = artifact + "/manifest.json";
  FUSEC_ASSIGN(const std::string text, ReadWholeFile(file, ErrorKind::kArtifact));
  Json manifest = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (manifest.is_object()) return manifest;
  return Fail(ErrorKind::kArtifact,
              file + (manifest.is_discarded() ? ": is not valid JSON" : " is not a JSON object"));
}

bool IsSharded(const Json& manifest) { return manifest.contains("shards"); }

Result<void> CheckNotSharded(const std::string& artifact, const std::string& verb) {
  FUSEC_ASSIGN(const Json manifest, ReadManifest(artifact));
  if (!IsSharded(manifest)) return {};
  return Fail(ErrorKind::kUsage, artifact + " is sharded: fusec " + verb +
                                     " takes one of its parts, such as " + artifact + "/dense or " +
                                     artifact + "/shard_0");
}

}  // namespace fusec
