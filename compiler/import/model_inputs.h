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

// A graph input with the type that fusec gives it.
struct ModelInput {
  std::string name;
  TensorType type;
  const TensorData* frozen = nullptr;  // its value, if it becomes a constant
};

struct ModelInputs {
  std::vector<ModelInput> inputs;  // in the model's order, those with an initializer left out
  std::vector<DimSymbol> symbols;  // in order of appearance
  // The names that --dim uses, which differ from a symbol's where a kernel needs its name.
  std::map<std::string, std::string> flags;
};

// Reads the declared types of the graph's inputs. A dim_param becomes a symbol, the same one
// wherever its text is the same; one that is an expression of other dim_params ("2*s0") becomes
// that expression; an unknown dim becomes a symbol of its own (d0, d1, ...), with a warning.
// Symbols that the options or a frozen input fix to one size become that number. Errors are about
// the options (kUsage); problems of the model go to `problems`.
Result<ModelInputs> ReadInputs(const onnx::ModelProto& model, const ImportOptions& options,
                               Problems& problems, std::vector<std::string>& warnings);

}  // namespace fusec
