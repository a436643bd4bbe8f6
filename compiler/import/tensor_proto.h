#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "compiler/ir/tensor.h"

namespace onnx {
class TensorProto;
}

namespace fusec {

class ExternalData;

// The dtype for an ONNX element type (TensorProto.DataType), if fusec has it; and the type's ONNX
// name ("float", "int4").
std::optional<Dtype> DtypeFromOnnx(int data_type);
std::string OnnxTypeName(int data_type);
int OnnxTypeOf(Dtype dtype);
// `element type int4, which fusec does not support`
std::string UnsupportedType(int data_type);

// Where the raw_data of an initializer lies in the mapped model file.
struct FilePayload {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

// The tensor of a proto; raw_data is moved out of it, not copied. Errors name no tensor: "has 10
// values, expected 12 for [3, 4]".
Result<TensorData> TakeTensor(onnx::TensorProto& proto, ExternalData& external,
                              const std::optional<FilePayload>& payload = std::nullopt);

}  // namespace fusec
