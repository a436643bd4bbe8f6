#include "compiler/driver/artifact/not_sharded.h"

#include <nlohmann/json.hpp>

#include "compiler/support/read_file.h"

namespace fusec {

Result<void> CheckNotSharded(const std::string& artifact, const std::string& verb) {
  FUSEC_ASSIGN(const std::string text,
               ReadWholeFile(artifact + "/manifest.json", ErrorKind::kArtifact));
  const auto manifest = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object() || !manifest.contains("shards")) return {};
  return Fail(ErrorKind::kUsage, artifact + " is sharded: fusec " + verb +
                                     " takes one of its parts, such as " + artifact +
                                     "/dense or " + artifact + "/shard_0");
}

}  // namespace fusec
