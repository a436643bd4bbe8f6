#pragma once

#include "compiler/driver/edit/edit_flags.h"
#include "compiler/support/result.h"

namespace fusec {

// Compiles the edited kernels, checks each of them alone against its unfused ops on the devices of
// this machine, times it beside the original, prints both results, and replaces the artifact by the
// edited one. If a check fails, the exit code is 1 and the artifact stays as it was, unless the
// flags say to keep the edits. The check of each device runs in a process of its own, so that a
// kernel that crashes only fails the check; the JSON then has no entry for that device.
Result<int> RebuildArtifact(const RebuildFlags& flags);

}  // namespace fusec
