#pragma once

#include <string>

#include "compiler/import/node_context.h"

namespace fusec {

// Ops of onnxruntime's own domain, com.microsoft, that have an import here: GatherBlockQuantized.
// ONNX has no schema of these, so that each checks its operands itself.
using ContribImport = Result<void> (*)(NodeContext&, const ImportState&);
// Null if there is none.
ContribImport FindContribImport(const std::string& domain, const std::string& op_type);

}  // namespace fusec
