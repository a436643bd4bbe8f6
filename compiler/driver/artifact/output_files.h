#pragma once

#include <string>
#include <vector>

#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/support/adt.h"

namespace fusec {

// Writes every output to FOLDER/NAME.npy, creates the folder, and returns the paths. Characters of
// a name outside [A-Za-z0-9._-] become _, and outputs that would share a file get a number.
Result<std::vector<std::string>> WriteOutputs(const runtime::Manifest& manifest,
                                              ArrayRef<TensorData> outputs,
                                              const std::string& folder);

}  // namespace fusec
