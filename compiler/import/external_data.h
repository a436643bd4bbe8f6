#pragma once

#include <map>
#include <memory>
#include <string>

#include "compiler/import/mapped_file.h"
#include "compiler/ir/tensor.h"

namespace onnx {
class TensorProto;
}

namespace fusec {

// The external data files of a model, which hold its weights. Each is mapped once; tensors are
// views that keep the mapping alive.
class ExternalData {
 public:
  explicit ExternalData(const std::string& model_path);
  const std::string& folder() const { return folder_; }

  // A view of the bytes that `proto.external_data` names (location, offset, length; the checksum is
  // ignored). The location must stay inside the model's folder: absolute paths, ".." and links are
  // errors, so that an untrusted model cannot make the compiler copy other files into its artifact.
  Result<TensorData> View(const onnx::TensorProto& proto, Dtype dtype, std::vector<int64_t> dims);

 private:
  Result<std::shared_ptr<const MappedFile>> File(const std::string& location);

  std::string folder_;  // ends in '/', or is empty
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace fusec
