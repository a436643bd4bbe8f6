#include "runtime/python/src/tensor_view.h"

#include <cstring>

#include "runtime/python/src/dtype.h"

namespace fusec::python {
namespace {

// Sets dims and strides; a dense tensor gets no strides.
void SetLayout(int rank, const int64_t* dims, const int64_t* strides, TensorView& view) {
  view.dims.assign(dims, dims + rank);
  view.strides.clear();
  view.is_dense = true;
  if (strides == nullptr) return;
  int64_t expected = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    if (dims[axis] == 0) {
      view.is_dense = true;
      return;
    }
    if (dims[axis] != 1 && strides[axis] != expected) view.is_dense = false;
    expected *= dims[axis];
  }
  if (!view.is_dense) view.strides.assign(strides, strides + rank);
}

std::string DlpackTypeName(dlpack::DataType dtype) {
  return "DLPack type " + std::to_string(dtype.code) + " of " + std::to_string(dtype.bits) +
         " bits";
}

void SetTensor(const dlpack::Tensor& tensor, TensorView& view) {
  view.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  view.dtype = FromDlpack(tensor.dtype);
  if (!view.dtype) view.type_name = DlpackTypeName(tensor.dtype);
  SetLayout(tensor.ndim, tensor.shape, tensor.strides, view);
  view.is_on_gpu = tensor.device.type == dlpack::kCuda;
  view.gpu = view.is_on_gpu ? tensor.device.id : -1;
  const bool is_known = view.is_on_gpu || tensor.device.type == dlpack::kCpu ||
                        tensor.device.type == dlpack::kCudaHost;
  if (is_known) return;
  throw Unreadable("it lies on a device that is neither a CPU nor an NVIDIA GPU (type " +
                   std::to_string(tensor.device.type) + " of DLPack)");
}

// Takes ownership of the capsule's tensor; null if the capsule has another name.
template <class Managed>
Managed* Take(const nb::object& capsule, const char* name, const char* used_name) {
  if (!PyCapsule_IsValid(capsule.ptr(), name)) return nullptr;
  auto* tensor = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (PyCapsule_SetName(capsule.ptr(), used_name) != 0) throw nb::python_error();
  return tensor;
}

nb::object DlpackCapsule(nb::handle object, nb::object stream) {
  const nb::object method = object.attr("__dlpack__");
  nb::dict keywords;
  if (!stream.is_none()) keywords["stream"] = stream;
  keywords["max_version"] = nb::make_tuple(dlpack::kVersion.major, dlpack::kVersion.minor);
  try {
    return method(**keywords);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  // A library older than DLPack 1.0 does not accept a version.
  return stream.is_none() ? method() : method(nb::arg("stream") = stream);
}

}  // namespace

void MemoryOwner::Release() {
  if (auto* buffer = std::get_if<Py_buffer>(&owner_)) {
    PyBuffer_Release(buffer);
  } else if (auto* managed = std::get_if<dlpack::ManagedTensor*>(&owner_)) {
    if ((*managed)->deleter) (*managed)->deleter(*managed);
  } else if (auto* versioned = std::get_if<dlpack::ManagedTensorVersioned*>(&owner_)) {
    if ((*versioned)->deleter) (*versioned)->deleter(*versioned);
  }
  owner_ = std::monostate();
}

int64_t TensorView::elements() const {
  int64_t product = 1;
  for (const int64_t dim : dims) product *= dim;
  return product;
}

size_t TensorView::bytes() const {
  return static_cast<size_t>(elements()) * fusec_dtype_bytes(*dtype);
}

std::string TensorView::type() const {
  std::string text = (dtype ? fusec_dtype_name(*dtype) : type_name) + "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  return text + "]";
}

void ReadBuffer(nb::handle object, bool writable, TensorView& view) {
  Py_buffer buffer;
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), &buffer, flags) != 0) throw nb::python_error();
  view.owner = MemoryOwner(buffer);
  view.data = buffer.buf;
  view.dtype = FromBufferFormat(buffer.format, static_cast<size_t>(buffer.itemsize));
  if (!view.dtype)
    view.type_name = std::string("the type \"") + (buffer.format ? buffer.format : "") + "\"";
  // Strides of a buffer are in bytes, and need not be a multiple of the element size.
  std::vector<int64_t> dims(buffer.shape, buffer.shape + buffer.ndim), strides;
  for (int axis = 0; axis < buffer.ndim; ++axis) {
    if (buffer.strides[axis] % buffer.itemsize != 0)
      throw Unreadable("its strides are no multiple of an element");
    strides.push_back(buffer.strides[axis] / buffer.itemsize);
  }
  SetLayout(buffer.ndim, dims.data(), strides.data(), view);
  view.is_read_only = buffer.readonly != 0;
  view.is_on_gpu = false;
  view.gpu = -1;
}

void ReadExchanged(const dlpack::ExchangeApi& api, nb::handle object, TensorView& view) {
  view.is_read_only = false;
  if (api.tensor_from_object != nullptr) {
    dlpack::Tensor tensor;
    if (api.tensor_from_object(object.ptr(), &tensor) != 0) throw nb::python_error();
    view.owner.Release();
    SetTensor(tensor, view);
    return;
  }
  dlpack::ManagedTensorVersioned* managed = nullptr;
  if (api.managed_from_object(object.ptr(), &managed) != 0) throw nb::python_error();
  view.owner = MemoryOwner(managed);
  SetTensor(managed->tensor, view);
}

dlpack::Device DlpackDevice(nb::handle object) {
  const nb::object device = object.attr("__dlpack_device__")();
  return {nb::cast<int32_t>(nb::int_(nb::object(device[0]))),
          nb::cast<int32_t>(nb::int_(nb::object(device[1])))};
}

void ReadDlpack(nb::handle object, void* stream, TensorView& view) {
  // Stream 0 is ambiguous in CUDA, so DLPack uses 1 for the default stream.
  nb::object where = nb::none();
  if (DlpackDevice(object).type == dlpack::kCuda)
    where = nb::int_(stream ? reinterpret_cast<uintptr_t>(stream) : uintptr_t{1});
  const nb::object capsule = DlpackCapsule(object, where);
  if (auto* versioned = Take<dlpack::ManagedTensorVersioned>(capsule, dlpack::kVersionedCapsule,
                                                             dlpack::kUsedVersionedCapsule)) {
    view.owner = MemoryOwner(versioned);
    if (versioned->version.major != dlpack::kVersion.major)
      throw Unreadable("it is of DLPack " + std::to_string(versioned->version.major));
    view.is_read_only = (versioned->flags & dlpack::kReadOnly) != 0;
    SetTensor(versioned->tensor, view);
  } else if (auto* managed =
                 Take<dlpack::ManagedTensor>(capsule, dlpack::kCapsule, dlpack::kUsedCapsule)) {
    view.owner = MemoryOwner(managed);
    view.is_read_only = false;
    SetTensor(managed->tensor, view);
  } else {
    throw Unreadable("its __dlpack__ gave no tensor of DLPack");
  }
}

void CopyDense(const TensorView& view, void* to) {
  const auto element = static_cast<int64_t>(fusec_dtype_bytes(*view.dtype));
  const auto rank = static_cast<int>(view.dims.size());
  const int64_t count = view.elements();
  if (count == 0) return;
  std::vector<int64_t> place(view.dims.size(), 0);
  const auto* from = static_cast<const char*>(view.data);
  auto* out = static_cast<char*>(to);
  // Copies one row along the last axis after another.
  const int64_t run = view.dims.back(), step = view.strides.back() * element;
  for (int64_t done = 0; done < count; done += run) {
    int64_t start = 0;
    for (int axis = 0; axis + 1 < rank; ++axis) start += place[axis] * view.strides[axis];
    const char* source = from + start * element;
    for (int64_t i = 0; i < run; ++i, out += element) std::memcpy(out, source + i * step, element);
    for (int axis = rank - 2; axis >= 0 && ++place[axis] == view.dims[axis]; --axis)
      place[axis] = 0;
  }
}

}  // namespace fusec::python
