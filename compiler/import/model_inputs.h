#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/import/import.h"

namespace onnx {
class ModelProto;
}

namespace fusec {

class Problems;

// A graph input and its type in the IR.
struct ModelInput {
  std::string name;
  TensorType type;
  const TensorData* frozen = nullptr;  // its value, if it becomes a constant
};

struct ModelInputs {
  std::vector<ModelInput> inputs;  // in the model's order, without those that have an initializer
  std::vector<DimSymbol> symbols;  // in order of appearance
  // Symbol -> its name for --dim. The two differ where the dim_param is not usable as a symbol (a
  // function name such as "mod").
  std::map<std::string, std::string> flags;
};

// Reads the declared types of the graph's inputs. Equal dim_params become the same symbol; a
// dim_param that is an expression of others ("2*s0") becomes that expression; a dim without size or
// name becomes a new symbol (d0, d1, ...), with a warning. Symbols that the options or a frozen
// input fix to one size become that number. Errors in the options are returned (kUsage); errors in
// the model are added to `problems`.
Result<ModelInputs> ReadInputs(const onnx::ModelProto& model, const ImportOptions& options,
                               Problems& problems, std::vector<std::string>& warnings);

}  // namespace fusec
