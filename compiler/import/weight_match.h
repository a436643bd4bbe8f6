#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/ir/tensor.h"

namespace fusec {

// Finds the tensor that replaces each initializer of a model (ImportOptions::weights).
//
// Exporters keep the names of most parameters, often behind the name of a wrapper module
// ("model.encoder.0.bias" for "encoder.0.bias"). Parameters that they transpose get other names
// ("onnx::MatMul_12", "val_3"), and parameters of equal values become one initializer. These are
// found by their values, if the weights that the model was exported with are given.
class WeightMatch {
 public:
  // Both arguments must outlive this object. `initializers` are the names in the model.
  WeightMatch(const ImportOptions& options, const std::vector<std::string>& initializers);

  // The tensor that replaces the initializer with the values `data`, in its dtype and shape; or
  // `data` itself. Errors do not name the initializer.
  Result<TensorData> Replacement(const std::string& initializer, TensorData data);
  // To be called after all initializers. Returns warnings of new tensors that the model lacks, such
  // as those of layers that were not exported. It is an error if no tensor was found, or if a
  // tensor that was not found may be in the model nevertheless.
  Result<std::vector<std::string>> Finish() const;

 private:
  using Tensors = std::map<std::string, TensorData>;
  struct Initializer {
    std::string name;
    Dtype dtype = Dtype::kF32;
    std::vector<int64_t> dims;
    std::string source;  // the new tensor that replaces it; "" if none does
  };

  Result<TensorData> ByName(const std::string& source, const TensorData& data) const;
  Result<TensorData> ByValues(const TensorData& data, std::string& source) const;
  Result<bool> IsShared(const std::string& name) const;
  const Initializer* LikelyHolder(const TensorData& weights) const;
  Result<void> CheckNotInModel(const std::string& name) const;

  const Tensors& fresh_;
  const Tensors& exported_;
  const std::vector<std::string>& names_;
  std::map<std::string, std::string> by_name_;  // initializer -> new tensor
  std::vector<Initializer> initializers_;
};

}  // namespace fusec
