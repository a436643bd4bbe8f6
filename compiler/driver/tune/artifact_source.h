#pragma once

#include <string>
#include <vector>

#include "compiler/driver/build/build_targets.h"
#include "compiler/driver/tune/tuning_file.h"

namespace fusec {

// Everything that is needed to build an artifact again. The same compiler makes the same bytes, if
// the tunings stay as they are.
struct ArtifactSource {
  ArtifactContents contents;  // without targets, index sites and files
  std::vector<TargetSource> targets;
  ModelTitle title;
  BuildOptions options;
  TuningFile tuning;
};
Result<ArtifactSource> ReadArtifactSource(const std::string& artifact);

// Builds it into the folder of an artifact, which does not change until the build is complete.
Result<void> WriteAgain(ArtifactSource source, const std::string& artifact);

}  // namespace fusec
