#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/import/part_lengths.h"
#include "compiler/ir/graph.h"

namespace fusec {

struct ImportOptions {
  // Symbol -> low..high, both inclusive, as promised by --dim. A symbol of one possible size
  // becomes that number.
  std::map<std::string, std::pair<int64_t, int64_t>> dim_ranges;
  // Symbol -> what it is of other symbols, which the model need not have: another name of one, or a
  // multiple.
  std::map<std::string, Expr> same_dims;
  // Graph inputs that become constants: name in the model -> value.
  std::map<std::string, TensorData> frozen_inputs;
  // In the place of initializers: name in the model -> value of the same dtype and shape. Names
  // that the model lacks become a warning; if it has none of them, that is an error.
  std::map<std::string, TensorData> weights;
};

struct ImportedModel {
  std::unique_ptr<Graph> graph;
  std::vector<std::string> warnings;  // one line each, without the file's name
  SizeTotals totals;
  // What the model calls its constants (initializers, and outputs of Constant nodes), by the
  // graph's names, which are identifiers.
  std::map<std::string, std::string> constant_names;
};

// Reads an ONNX model (protobuf; or ONNX's text syntax, if the name ends in `.onnxtxt`) into a
// graph: local functions and branches of a constant `If` are inlined, initializers and Constant
// nodes become constants that stay in the mapped file where they are big. Sets graph.metadata
// "opset", "ir_version", "producer" and "file" (without its folder). Errors (ErrorKind::kModel)
// name file, node and tensor; everything unsupported is reported at once, one line each. Unknown
// names in `options` are ErrorKind::kUsage and list the known ones.
Result<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options);

}  // namespace fusec
