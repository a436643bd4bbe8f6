#include "compiler/reference/reference_context.h"

#include <algorithm>
#include <cstring>

namespace fusec {
namespace {

int64_t CountElements(ArrayRef<int64_t> dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

int64_t Wrap(Dtype dtype, int64_t value) {
  switch (dtype) {
    case Dtype::kI8:
      return static_cast<int8_t>(value);
    case Dtype::kI16:
      return static_cast<int16_t>(value);
    case Dtype::kI32:
      return static_cast<int32_t>(value);
    case Dtype::kU8:
      return static_cast<uint8_t>(value);
    case Dtype::kU16:
      return static_cast<uint16_t>(value);
    case Dtype::kU32:
      return static_cast<uint32_t>(value);
    case Dtype::kBool:
      return value != 0;
    default:
      return value;
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

ReferenceTensor::ReferenceTensor(Dtype dtype, std::vector<int64_t> dims)
    : dtype(dtype), dims(std::move(dims)) {
  if (IsFloat(dtype))
    reals.resize(static_cast<size_t>(element_count()));
  else
    ints.resize(static_cast<size_t>(element_count()));
}

ReferenceTensor ReferenceTensor::FromData(const TensorData& data) {
  ReferenceTensor tensor(data.dtype(), data.dims());
  if (data.dtype() == Dtype::kF32) {
    std::vector<float> floats(tensor.reals.size());
    std::memcpy(floats.data(), data.bytes(), floats.size() * sizeof(float));
    std::copy(floats.begin(), floats.end(), tensor.reals.begin());
    return tensor;
  }
  for (size_t i = 0; i < tensor.reals.size(); ++i) tensor.reals[i] = data.GetDouble(i);
  for (size_t i = 0; i < tensor.ints.size(); ++i) tensor.ints[i] = data.GetInt(i);
  return tensor;
}

TensorData ReferenceTensor::ToData() const {
  TensorData data(dtype, dims);
  if (dtype == Dtype::kF32) {
    const std::vector<float> floats(reals.begin(), reals.end());
    std::memcpy(data.mutable_bytes(), floats.data(), floats.size() * sizeof(float));
    return data;
  }
  for (size_t i = 0; i < reals.size(); ++i) data.SetDouble(i, reals[i]);
  for (size_t i = 0; i < ints.size(); ++i) data.SetInt(i, ints[i]);
  return data;
}

int64_t ReferenceTensor::element_count() const { return CountElements(dims); }

int64_t ReferenceTensor::Position(ArrayRef<int64_t> index) const {
  int64_t position = 0;
  for (size_t i = 0; i < dims.size(); ++i) position = position * dims[i] + index[i];
  return position;
}

void ReferenceTensor::WrapInts() {
  for (int64_t& value : ints) value = Wrap(dtype, value);
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
