#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/import/part_lengths.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/in_place.h"

namespace fusec {

struct ImportOptions {
  // Symbol -> low..high, both inclusive, as promised by --dim. A symbol of one possible size
  // becomes that number.
  std::map<std::string, std::pair<int64_t, int64_t>> dim_ranges;
  // Symbol -> expression of other symbols that replaces it: another name for one of them, or a
  // multiple. The other symbols need not occur in the model.
  std::map<std::string, Expr> same_dims;
  // Outputs that lie in the memory of inputs, and so have the same dims: where the model calls a
  // dim of the two by different names, both are one symbol.
  std::vector<InPlace> in_place;
  // Graph inputs that become constants: name in the model -> value.
  std::map<std::string, TensorData> frozen_inputs;
  // New values of initializers, by their names in the model or in the framework that exported it;
  // and the values with which the model was exported, to find those of other names (WeightMatch).
  std::map<std::string, TensorData> weights, exported_with;
};

struct ImportedModel {
  std::unique_ptr<Graph> graph;
  std::vector<std::string> warnings;  // one line each, without the file's name
  SizeTotals totals;
  // The model's names of constants (initializers, and outputs of Constant nodes), keyed by their
  // names in the graph, which are identifiers.
  std::map<std::string, std::string> constant_names;
};

// Reads an ONNX model (protobuf, or ONNX's text syntax if the name ends in `.onnxtxt`) into a
// graph. Local functions and the taken branch of an `If` with a known condition are inlined;
// initializers and Constant nodes become constants, and big ones stay in the mapped file. Sets
// graph.metadata "opset", "ir_version", "producer" and "file" (without its folder). Errors
// (ErrorKind::kModel) name file, node and tensor; all unsupported features are reported at once,
// one line each. Unknown names in `options` are ErrorKind::kUsage errors that list the known names.
Result<ImportedModel> ImportOnnx(const std::string& path, const ImportOptions& options);

}  // namespace fusec
