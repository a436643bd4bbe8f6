#pragma once

#include <string>
#include <vector>

#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/support/adt.h"

namespace fusec {

// Creates the folder, writes every output to FOLDER/NAME.npy, and returns the paths. Characters of
// a name outside [A-Za-z0-9._-] become _, and a number is appended to a file name that is taken.
Result<std::vector<std::string>> WriteOutputs(const runtime::Manifest& manifest,
                                              ArrayRef<TensorData> outputs,
                                              const std::string& folder);

}  // namespace fusec
