#pragma once

#include <string>
#include <vector>

#include "compiler/driver/build/build_targets.h"
#include "compiler/driver/tune/tuning_file.h"

namespace fusec {

// All from which an artifact can be built again: the same bytes by the same compiler, if its
// tunings stay as they are.
struct ArtifactSource {
  ArtifactContents contents;  // without targets, index sites and files
  std::vector<TargetSource> targets;
  ModelTitle title;
  BuildOptions options;
  TuningFile tuning;
};
Result<ArtifactSource> ReadArtifactSource(const std::string& artifact);

// Builds it into the folder of an artifact, which stays as it is until all is done.
Result<void> WriteAgain(ArtifactSource source, const std::string& artifact);

}  // namespace fusec
