#include "compiler/import/tensor_file.h"

#include <onnx/onnx_pb.h>

#include "compiler/import/external_data.h"
#include "compiler/import/mapped_file.h"
#include "compiler/import/names.h"
#include "compiler/import/tensor_proto.h"

namespace fusec {

Result<NamedTensor> ReadTensorFile(const std::string& path) {
  const auto fail = [&](const std::string& message) {
    return Fail(ErrorKind::kInput, Printable(path + ": " + message));
  };
  const auto file = MappedFile::Open(path, MappedFile::Links::kFollow);
  if (!file) return fail(file.error().message);
  const std::span<const std::byte> bytes = (*file)->bytes();
  onnx::TensorProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return fail("is not a TensorProto");
  }
  ExternalData external(path);
  const std::string name = proto.name();
  Result<TensorData> data = TakeTensor(proto, external);
  if (!data) return fail(data.error().message);
  return NamedTensor{name, *std::move(data)};
}

}  // namespace fusec
