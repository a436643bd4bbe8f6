#include "compiler/reference/reference_context.h"

#include <algorithm>
#include <cstring>

namespace fusec {
namespace {

template <class T>
void WrapTo(std::vector<int64_t>& values) {
  for (int64_t& value : values) value = static_cast<T>(value);
}

template <class T>
void Load(const std::byte* bytes, std::vector<int64_t>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    T element;
    std::memcpy(&element, bytes + i * sizeof(T), sizeof(T));
    values[i] = static_cast<int64_t>(element);
  }
}

template <class T>
void Save(const std::vector<int64_t>& values, std::byte* bytes) {
  for (size_t i = 0; i < values.size(); ++i) {
    const T element = static_cast<T>(values[i]);
    std::memcpy(bytes + i * sizeof(T), &element, sizeof(T));
  }
}

std::string ListText(ArrayRef<int64_t> values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(values[i]);
  }
  return text + "]";
}

}  // namespace

int64_t CountElements(ArrayRef<int64_t> dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

ReferenceTensor::ReferenceTensor(Dtype dtype, std::vector<int64_t> dims)
    : dtype(dtype), dims(std::move(dims)) {
  if (IsFloat(dtype))
    reals.resize(static_cast<size_t>(element_count()));
  else
    ints.resize(static_cast<size_t>(element_count()));
}

ReferenceTensor ReferenceTensor::FromData(const TensorData& data) {
  ReferenceTensor tensor = FromData(data, 0, data.element_count());
  tensor.dims = data.dims();
  return tensor;
}

ReferenceTensor ReferenceTensor::FromData(const TensorData& data, int64_t begin, int64_t count) {
  ReferenceTensor tensor(data.dtype(), {count});
  const std::byte* const from = data.bytes() + begin * DtypeBytes(data.dtype());
  switch (data.dtype()) {
    case Dtype::kF32:
      for (int64_t i = 0; i < count; ++i) {
        float element;
        std::memcpy(&element, from + i * static_cast<int64_t>(sizeof(float)), sizeof(float));
        tensor.reals[i] = element;
      }
      break;
    case Dtype::kI8: Load<int8_t>(from, tensor.ints); break;
    case Dtype::kU8: Load<uint8_t>(from, tensor.ints); break;
    case Dtype::kI32: Load<int32_t>(from, tensor.ints); break;
    case Dtype::kI64: Load<int64_t>(from, tensor.ints); break;
    default:
      for (size_t i = 0; i < tensor.reals.size(); ++i) tensor.reals[i] = data.GetDouble(begin + i);
      for (size_t i = 0; i < tensor.ints.size(); ++i) tensor.ints[i] = data.GetInt(begin + i);
  }
  return tensor;
}

TensorData ReferenceTensor::ToData() const {
  TensorData data(dtype, dims);
  Store(data, 0);
  return data;
}

void ReferenceTensor::Store(TensorData& data, int64_t begin) const {
  std::byte* const to = data.mutable_bytes() + begin * DtypeBytes(dtype);
  switch (dtype) {
    case Dtype::kF32:
      for (size_t i = 0; i < reals.size(); ++i) {
        const float element = static_cast<float>(reals[i]);
        std::memcpy(to + i * sizeof(float), &element, sizeof(float));
      }
      break;
    case Dtype::kI8: return Save<int8_t>(ints, to);
    case Dtype::kU8: return Save<uint8_t>(ints, to);
    case Dtype::kI32: return Save<int32_t>(ints, to);
    case Dtype::kI64: return Save<int64_t>(ints, to);
    default:
      for (size_t i = 0; i < reals.size(); ++i) data.SetDouble(begin + i, reals[i]);
      for (size_t i = 0; i < ints.size(); ++i) data.SetInt(begin + i, ints[i]);
  }
}

double RoundedTo(Dtype dtype, double value) {
  switch (dtype) {
    case Dtype::kF32: return static_cast<float>(value);
    case Dtype::kF16: return HalfToDouble(DoubleToHalf(value));
    case Dtype::kBF16: return BFloat16ToDouble(DoubleToBFloat16(value));
    default: return value;
  }
}

int64_t ReferenceTensor::element_count() const { return CountElements(dims); }

int64_t ReferenceTensor::Position(ArrayRef<int64_t> index) const {
  int64_t position = 0;
  for (size_t i = 0; i < dims.size(); ++i) position = position * dims[i] + index[i];
  return position;
}

void ReferenceTensor::WrapInts() {
  switch (dtype) {
    case Dtype::kI8: return WrapTo<int8_t>(ints);
    case Dtype::kI16: return WrapTo<int16_t>(ints);
    case Dtype::kI32: return WrapTo<int32_t>(ints);
    case Dtype::kU8: return WrapTo<uint8_t>(ints);
    case Dtype::kU16: return WrapTo<uint16_t>(ints);
    case Dtype::kU32: return WrapTo<uint32_t>(ints);
    case Dtype::kBool: return WrapTo<bool>(ints);
    default: return;
  }
}

void ForEachIndex(ArrayRef<int64_t> dims, function_ref<void(ArrayRef<int64_t>)> visit) {
  if (CountElements(dims) == 0) return;
  std::vector<int64_t> index(dims.size(), 0);
  while (true) {
    visit(index);
    size_t axis = dims.size();
    while (axis > 0 && ++index[axis - 1] == dims[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

std::vector<int64_t> StridesOf(ArrayRef<int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
  return strides;
}

std::vector<int64_t> BroadcastStrides(ArrayRef<int64_t> dims, size_t rank) {
  std::vector<int64_t> strides = StridesOf(dims);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) strides[i] = 0;
  }
  strides.insert(strides.begin(), rank - dims.size(), 0);
  return strides;
}

Result<int64_t> ReferenceContext::CheckedIndex(int operand, int64_t position, int64_t value,
                                               int64_t extent) const {
  if (value >= -extent && value < extent) return value < 0 ? value + extent : value;
  return OutsideError(
      operand, position, "index " + std::to_string(value),
      extent == 0 ? "an empty axis" : std::to_string(-extent) + ".." + std::to_string(extent - 1));
}

Result<int64_t> ReferenceContext::CheckedLength(int operand, int64_t position,
                                                int64_t longest) const {
  const int64_t value = input(operand).ints[position];
  if (value >= 0 && value <= longest) return value;
  return OutsideError(operand, position, "length " + std::to_string(value),
                      "0.." + std::to_string(longest));
}

Result<int64_t> ReferenceContext::CheckedSlot(int operand, int64_t position, int64_t count) const {
  const int64_t value = input(operand).ints[position];
  if (value >= -1 && value < count) return value;
  return OutsideError(operand, position, "slot " + std::to_string(value),
                      "-1.." + std::to_string(count - 1));
}

tl::unexpected<Error> ReferenceContext::OutsideError(int operand, int64_t position,
                                                     const std::string& found,
                                                     const std::string& limits) const {
  std::vector<int64_t> index = input(operand).dims;
  for (size_t axis = index.size(); axis-- > 0;) {
    const int64_t dim = index[axis];
    index[axis] = position % dim;
    position /= dim;
  }
  const std::string place =
      node.provenance.empty() ? "%" + node.result()->name : node.provenance.front().onnx_node;
  return Fail(ErrorKind::kInput, "node \"" + place + "\": " + found + " at " + ListText(index) +
                                     " of \"" + node.operand(operand)->name + "\" is outside " +
                                     limits);
}

}  // namespace fusec
