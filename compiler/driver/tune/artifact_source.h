#pragma once

#include <string>
#include <vector>

#include "compiler/driver/build/build_targets.h"
#include "compiler/driver/tune/tuning_file.h"

namespace fusec {

// Everything that is needed to build an artifact again. With unchanged tuning, the same version of
// the compiler produces the same bytes.
struct ArtifactSource {
  ArtifactContents contents;  // without targets, index sites and files
  std::vector<TargetSource> targets;
  ModelTitle title;
  BuildOptions options;
  TuningFile tuning;
};
Result<ArtifactSource> ReadArtifactSource(const std::string& artifact);

// Builds the artifact again into its folder, which is replaced only when the build is complete.
Result<void> WriteAgain(ArtifactSource source, const std::string& artifact);

}  // namespace fusec
