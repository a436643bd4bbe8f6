#pragma once

#include <string>

#include "compiler/import/node_context.h"

namespace fusec {

// Importers for ops of onnxruntime's domain com.microsoft (GatherBlockQuantized only). libonnx has
// no schema for these ops, so each importer checks its operands itself.
using ContribImport = Result<void> (*)(NodeContext&, const ImportState&);
// Null if fusec has no importer for the op.
ContribImport FindContribImport(const std::string& domain, const std::string& op_type);

}  // namespace fusec
