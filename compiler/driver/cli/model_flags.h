#pragma once

#include "compiler/driver/build/compile.h"
#include "compiler/driver/cli/cli.h"

namespace fusec {

// Reads the frozen tensors and checks the names; usage errors list the names that exist.
Result<void> ApplyModelFlags(const ModelFlags& flags, CompileOptions& options);

}  // namespace fusec
