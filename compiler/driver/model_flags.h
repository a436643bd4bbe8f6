#pragma once

#include "compiler/driver/cli.h"
#include "compiler/driver/compile.h"

namespace fusec {

// Reads the frozen tensors and checks the names; usage errors list the names that exist.
Result<void> ApplyModelFlags(const ModelFlags& flags, CompileOptions& options);

}  // namespace fusec
