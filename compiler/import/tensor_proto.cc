#include "compiler/import/tensor_proto.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>

#include "compiler/import/external_data.h"
#include "compiler/import/narrow_types.h"
#include "compiler/ir/infer.h"

namespace fusec {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

std::string DimsText(const onnx::TensorProto& proto) {
  std::string text = "[";
  for (int i = 0; i < proto.dims_size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(proto.dims(i));
  }
  return text + "]";
}

// The dims. It is an error if one is negative or the number of bytes overflows 64 bits.
Result<std::vector<int64_t>> Dims(const onnx::TensorProto& proto, Dtype dtype) {
  if (proto.dims_size() > kMostAxes)
    return ModelError("has rank " + std::to_string(proto.dims_size()) + ", expected at most " +
                      std::to_string(kMostAxes));
  int64_t bytes = DtypeBytes(dtype);
  for (const int64_t dim : proto.dims()) {
    if (dim < 0) return ModelError("has a negative dim: " + DimsText(proto));
    if (dim > 0 && __builtin_mul_overflow(bytes, dim, &bytes)) {
      return ModelError("is too big: " + DimsText(proto));
    }
  }
  return std::vector<int64_t>(proto.dims().begin(), proto.dims().end());
}

tl::unexpected<Error> WrongCount(const onnx::TensorProto& proto, const char* unit, size_t found,
                                 size_t expected) {
  return ModelError("has " + std::to_string(found) + " " + unit + ", expected " +
                    std::to_string(expected) + " for " + DimsText(proto));
}

// A tensor from the values of a typed field. `Stored` is the type in which TensorData stores an
// element (float16 is kept as bits in int32_data).
template <class Stored, class Field>
Result<TensorData> FromField(const onnx::TensorProto& proto, const Field& field, Dtype dtype,
                             std::vector<int64_t> dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  if (field.size() != count) return WrongCount(proto, "values", field.size(), count);
  TensorData data(dtype, std::move(dims));
  if (field.empty()) return data;
  std::byte* bytes = data.mutable_bytes();
  for (int i = 0; i < field.size(); ++i) {
    const Stored value = static_cast<Stored>(field[i]);
    std::memcpy(bytes + i * sizeof(Stored), &value, sizeof(Stored));
  }
  return data;
}

Result<TensorData> FromTypedFields(const onnx::TensorProto& proto, Dtype dtype,
                                   std::vector<int64_t> dims) {
  const auto& ints = proto.int32_data();
  switch (dtype) {
    case Dtype::kF32:
      return FromField<float>(proto, proto.float_data(), dtype, std::move(dims));
    case Dtype::kF64:
      return FromField<double>(proto, proto.double_data(), dtype, std::move(dims));
    case Dtype::kI64:
      return FromField<int64_t>(proto, proto.int64_data(), dtype, std::move(dims));
    case Dtype::kU64:
      return FromField<uint64_t>(proto, proto.uint64_data(), dtype, std::move(dims));
    case Dtype::kU32:
      return FromField<uint32_t>(proto, proto.uint64_data(), dtype, std::move(dims));
    case Dtype::kI32:
      return FromField<int32_t>(proto, ints, dtype, std::move(dims));
    case Dtype::kF16:
    case Dtype::kBF16:
    case Dtype::kI16:
    case Dtype::kU16:
      return FromField<uint16_t>(proto, ints, dtype, std::move(dims));
    case Dtype::kI8:
    case Dtype::kU8:
      return FromField<uint8_t>(proto, ints, dtype, std::move(dims));
    case Dtype::kBool:
      return FromField<bool>(proto, ints, dtype, std::move(dims));
  }
  return ModelError("has an unknown element type");
}

// Unpacks a constant of a type that only constants may have (narrow_types.h).
Result<TensorData> TakeNarrow(const onnx::TensorProto& proto, const NarrowType& type,
                              ExternalData& external, const std::optional<FilePayload>& payload) {
  FUSEC_ASSIGN(std::vector<int64_t> dims, Dims(proto, type.held));
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  const int64_t packed = (count + 8 / type.bits - 1) / (8 / type.bits);
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    FUSEC_ASSIGN(const TensorData bytes, external.View(proto, Dtype::kU8, {packed}));
    return Unpacked(proto.data_type(), std::move(dims), {bytes.bytes(), bytes.byte_count()});
  }
  std::string typed;  // each of its values is a byte
  for (const int32_t value : proto.int32_data()) typed.push_back(static_cast<char>(value));
  const std::span<const std::byte> bytes = payload ? payload->bytes
                                           : proto.has_raw_data()
                                               ? std::as_bytes(std::span(proto.raw_data()))
                                               : std::as_bytes(std::span(typed));
  if (bytes.size() != static_cast<size_t>(packed)) {
    return WrongCount(proto, "bytes", bytes.size(), static_cast<size_t>(packed));
  }
  return Unpacked(proto.data_type(), std::move(dims), bytes);
}

}  // namespace

std::optional<Dtype> DtypeFromOnnx(int data_type) {
  switch (data_type) {
    case onnx::TensorProto::FLOAT:
      return Dtype::kF32;
    case onnx::TensorProto::FLOAT16:
      return Dtype::kF16;
    case onnx::TensorProto::BFLOAT16:
      return Dtype::kBF16;
    case onnx::TensorProto::DOUBLE:
      return Dtype::kF64;
    case onnx::TensorProto::INT8:
      return Dtype::kI8;
    case onnx::TensorProto::INT16:
      return Dtype::kI16;
    case onnx::TensorProto::INT32:
      return Dtype::kI32;
    case onnx::TensorProto::INT64:
      return Dtype::kI64;
    case onnx::TensorProto::UINT8:
      return Dtype::kU8;
    case onnx::TensorProto::UINT16:
      return Dtype::kU16;
    case onnx::TensorProto::UINT32:
      return Dtype::kU32;
    case onnx::TensorProto::UINT64:
      return Dtype::kU64;
    case onnx::TensorProto::BOOL:
      return Dtype::kBool;
    default:
      return std::nullopt;
  }
}

int OnnxTypeOf(Dtype dtype) {
  int data_type = onnx::TensorProto::UNDEFINED;
  while (DtypeFromOnnx(data_type) != dtype) ++data_type;
  return data_type;
}

std::string OnnxTypeName(int data_type) {
  if (!onnx::TensorProto::DataType_IsValid(data_type)) return std::to_string(data_type);
  std::string name = onnx::TensorProto::DataType_Name(data_type);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

std::string UnsupportedType(int data_type) {
  return "element type " + OnnxTypeName(data_type) + ", which fusec does not support";
}

Result<TensorData> TakeTensor(onnx::TensorProto& proto, ExternalData& external,
                              const std::optional<FilePayload>& payload) {
  if (proto.has_segment()) return ModelError("is stored in segments, which fusec does not support");
  if (const std::optional<NarrowType> narrow = NarrowTypeFromOnnx(proto.data_type())) {
    return TakeNarrow(proto, *narrow, external, payload);
  }
  const std::optional<Dtype> dtype = DtypeFromOnnx(proto.data_type());
  if (!dtype) return ModelError("has " + UnsupportedType(proto.data_type()));
  FUSEC_ASSIGN(std::vector<int64_t> dims, Dims(proto, *dtype));
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    return external.View(proto, *dtype, std::move(dims));
  }
  if (!payload && !proto.has_raw_data()) return FromTypedFields(proto, *dtype, std::move(dims));

  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  if (payload) {
    owner = payload->owner;
    bytes = payload->bytes;
  } else {
    const auto text = std::make_shared<const std::string>(std::move(*proto.mutable_raw_data()));
    bytes = std::as_bytes(std::span(*text));
    owner = text;
  }
  TensorData data(*dtype, std::move(dims), std::move(owner), bytes.data(), payload.has_value());
  if (bytes.size() != data.byte_count()) {
    return WrongCount(proto, "bytes", bytes.size(), data.byte_count());
  }
  return data;
}

}  // namespace fusec
