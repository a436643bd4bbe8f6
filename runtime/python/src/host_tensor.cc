#include "runtime/python/src/host_tensor.h"

#include <nanobind/stl/string.h>

#include <cstring>

#include "runtime/python/src/docs.h"
#include "runtime/python/src/dtype.h"
#include "runtime/python/src/errors.h"

namespace fusec::python {
namespace {

// The objects that a DLPack capsule keeps alive: the memory, and the dims to which its tensor
// points.
template <class Managed>
struct Exported {
  Managed managed{};
  std::shared_ptr<HostMemory> memory;
  std::vector<int64_t> dims, strides;
};

// A capsule that was not consumed frees its tensor. Deleters acquire the GIL, because the memory
// may be the last owner of a program.
template <class Managed>
void FreeCapsule(PyObject* capsule) {
  constexpr bool is_versioned = std::is_same_v<Managed, dlpack::ManagedTensorVersioned>;
  const char* name = is_versioned ? dlpack::kVersionedCapsule : dlpack::kCapsule;
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

template <class Managed>
nb::object Export(std::shared_ptr<HostMemory> memory, fusec_dtype dtype,
                  const std::vector<int64_t>& dims, bool is_copy) {
  auto exported = std::make_unique<Exported<Managed>>();
  exported->memory = std::move(memory);
  exported->dims = dims;
  exported->strides.resize(dims.size());
  int64_t stride = 1;
  for (size_t axis = dims.size(); axis-- > 0; stride *= dims[axis])
    exported->strides[axis] = stride;
  Managed& managed = exported->managed;
  managed.manager = exported.get();
  managed.deleter = [](Managed* self) {
    if (!Py_IsInitialized()) return;  // the interpreter has ended, and the process is about to end
    const nb::gil_scoped_acquire gil;
    delete static_cast<Exported<Managed>*>(self->manager);
  };
  managed.tensor = {exported->memory->data(),
                    {dlpack::kCpu, 0},
                    static_cast<int32_t>(dims.size()),
                    ToDlpack(dtype),
                    exported->dims.data(),
                    exported->strides.data(),
                    0};
  const char* name = dlpack::kCapsule;
  if constexpr (std::is_same_v<Managed, dlpack::ManagedTensorVersioned>) {
    managed.version = dlpack::kVersion;
    managed.flags = is_copy ? dlpack::kIsCopied : 0;
    name = dlpack::kVersionedCapsule;
  }
  PyObject* capsule = PyCapsule_New(&managed, name, FreeCapsule<Managed>);
  if (capsule == nullptr) throw nb::python_error();
  exported.release();
  return nb::steal(capsule);
}

int GetBuffer(PyObject* self, Py_buffer* buffer, int flags) {
  return nb::inst_ptr<HostTensor>(self)->FillBuffer(self, buffer, flags);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(GetBuffer)}, {0, nullptr}};

nb::tuple ShapeOf(const HostTensor& tensor) {
  nb::list dims;
  for (const int64_t dim : tensor.dims()) dims.append(dim);
  return nb::tuple(dims);
}

nb::object DlpackOf(const HostTensor& tensor, nb::object stream, nb::object max_version,
                    nb::object device, nb::object copy) {
  if (!stream.is_none())
    Raise(FUSEC_BAD_USAGE, "the tensor is in host memory, which has no stream");
  if (!device.is_none() && nb::cast<int>(nb::object(device[0])) != static_cast<int>(dlpack::kCpu)) {
    PyErr_SetString(PyExc_BufferError, "the tensor is in host memory and is exported only there");
    throw nb::python_error();
  }
  const bool versioned = !max_version.is_none() && nb::cast<int>(nb::object(max_version[0])) >= 1;
  return tensor.ToDlpack(versioned, !copy.is_none() && nb::cast<bool>(copy));
}

std::string Repr(const HostTensor& tensor) {
  TensorView view;
  tensor.View(view);
  return "fusec.Tensor(" + view.type() + ")";
}

}  // namespace

HostTensor::HostTensor(std::shared_ptr<HostMemory> memory, fusec_dtype dtype,
                       std::vector<int64_t> dims)
    : memory_(std::move(memory)), dtype_(dtype), dims_(std::move(dims)) {
  shape_.assign(dims_.begin(), dims_.end());
  strides_bytes_.resize(dims_.size());
  auto stride = static_cast<Py_ssize_t>(fusec_dtype_bytes(dtype_));
  for (size_t axis = dims_.size(); axis-- > 0; stride *= shape_[axis])
    strides_bytes_[axis] = stride;
}

size_t HostTensor::bytes() const {
  size_t bytes = fusec_dtype_bytes(dtype_);
  for (const int64_t dim : dims_) bytes *= static_cast<size_t>(dim);
  return bytes;
}

void HostTensor::View(TensorView& view) const {
  view.owner.Release();
  view.data = memory_->data();
  view.dtype = dtype_;
  view.dims = dims_;
  view.is_dense = true;
  view.is_read_only = view.is_on_gpu = false;
  view.gpu = -1;
}

nb::object HostTensor::ToDlpack(bool versioned, bool copy) const {
  std::shared_ptr<HostMemory> memory = memory_;
  if (copy) {
    memory = std::make_shared<HostMemory>(bytes());
    std::memcpy(memory->data(), memory_->data(), bytes());
  }
  return versioned ? Export<dlpack::ManagedTensorVersioned>(memory, dtype_, dims_, copy)
                   : Export<dlpack::ManagedTensor>(memory, dtype_, dims_, copy);
}

int HostTensor::FillBuffer(PyObject* self, Py_buffer* buffer, int flags) const {
  const char* format = BufferFormat(dtype_);
  buffer->obj = nullptr;
  if (format == nullptr) {
    PyErr_SetString(PyExc_BufferError, "buffers of Python have no bf16; use DLPack or numpy()");
    return -1;
  }
  *buffer = {};
  buffer->buf = memory_->data();
  buffer->len = static_cast<Py_ssize_t>(bytes());
  buffer->itemsize = static_cast<Py_ssize_t>(fusec_dtype_bytes(dtype_));
  buffer->ndim = static_cast<int>(dims_.size());
  buffer->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
  buffer->shape = (flags & PyBUF_ND) ? const_cast<Py_ssize_t*>(shape_.data()) : nullptr;
  if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES)
    buffer->strides = const_cast<Py_ssize_t*>(strides_bytes_.data());
  Py_INCREF(self);
  buffer->obj = self;
  return 0;
}

void HostTensor::Declare(nb::module_& module) {
  nb::class_<HostTensor>(module, "Tensor", nb::type_slots(slots), docs::kTensor)
      .def_prop_ro("shape", ShapeOf, docs::kShape)
      .def_prop_ro(
          "dtype", [](const HostTensor& tensor) { return fusec_dtype_name(tensor.dtype()); },
          docs::kDtype)
      .def_prop_ro("nbytes", &HostTensor::bytes, docs::kBytes)
      .def("__dlpack__", DlpackOf, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none())
      .def("__dlpack_device__",
           [](const HostTensor&) { return nb::make_tuple(static_cast<int>(dlpack::kCpu), 0); })
      .def("__repr__", Repr);
}

}  // namespace fusec::python
