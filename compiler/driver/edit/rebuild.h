#pragma once

#include "compiler/driver/edit/edit_flags.h"
#include "compiler/support/result.h"

namespace fusec {

// Compiles what was edited, checks each edited kernel alone against its unfused ops on the devices
// that are here, times it beside the original, prints both, and puts the edited artifact in the
// place of the old one. The exit code is 1, and the artifact as it was, if a check fails. Each
// device's check runs in a process of its own, so that a kernel that crashes fails it; JSON has
// nothing of that device then.
Result<int> RebuildArtifact(const RebuildFlags& flags);

}  // namespace fusec
