#include "runtime/python/src/array_library.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <cstring>

#include "runtime/python/src/errors.h"
#include "runtime/python/src/host_tensor.h"

namespace fusec::python {
namespace {

nb::tuple ShapeTuple(const std::vector<int64_t>& dims) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(dims.size()));
  if (tuple == nullptr) throw nb::python_error();
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    PyObject* dim = PyLong_FromLongLong(dims[axis]);
    if (dim == nullptr || PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(axis), dim) != 0) {
      Py_DECREF(tuple);
      throw nb::python_error();
    }
  }
  return nb::steal<nb::tuple>(tuple);
}

bool Has(nb::handle object, const char* attribute) {
  return PyObject_HasAttrString(object.ptr(), attribute) == 1;
}

// Whether the type or one of its base classes is defined in the package `name`.
bool IsOf(nb::handle type, const std::string& name) {
  for (const nb::handle base : nb::borrow<nb::tuple>(type.attr("__mro__"))) {
    const nb::object module = nb::getattr(base, "__module__", nb::none());
    if (!nb::isinstance<nb::str>(module)) continue;
    const std::string text = nb::cast<std::string>(module);
    if (text == name || text.starts_with(name + ".")) return true;
  }
  return false;
}

// The table of functions of DLPack version 1 of a type, or null.
const dlpack::ExchangeApi* ExchangeApiOf(nb::handle type) {
  constexpr const char* kAttribute = "__dlpack_c_exchange_api__";
  constexpr const char* kName = "dlpack_exchange_api";
  if (!Has(type, kAttribute)) return nullptr;
  const nb::object capsule = type.attr(kAttribute);
  if (!PyCapsule_IsValid(capsule.ptr(), kName)) return nullptr;
  const auto* api =
      static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), kName));
  while (api != nullptr && api->version.major > dlpack::kVersion.major) api = api->previous;
  return api != nullptr && api->version.major == dlpack::kVersion.major ? api : nullptr;
}

void SetError(void*, const char* kind, const char* message) {
  PyErr_SetString(std::strcmp(kind, "MemoryError") == 0 ? PyExc_MemoryError : PyExc_RuntimeError,
                  message);
}

std::string GpuName(int gpu) { return gpu < 0 ? "cpu" : "cuda:" + std::to_string(gpu); }

}  // namespace

ArrayLibrary::ArrayLibrary(Kind kind, nb::object module, const dlpack::ExchangeApi* api)
    : kind_(kind),
      module_(std::move(module)),
      api_(api),
      is_stream_ordered_(kind == Kind::kTorch || kind == Kind::kCupy) {
  const bool makes_arrays = kind != Kind::kPlain && kind != Kind::kExchanged;
  if (makes_arrays) empty_ = module_.attr("empty");
}

// Libraries live as long as the process, as their modules do.
ArrayLibrary& ArrayLibrary::Make(Kind kind, nb::object module, const dlpack::ExchangeApi* api) {
  static auto* libraries = new std::vector<std::unique_ptr<ArrayLibrary>>();
  for (const auto& library : *libraries) {
    if (library->kind_ == kind && library->module_.is(module) && library->api_ == api)
      return *library;
  }
  libraries->push_back(
      std::unique_ptr<ArrayLibrary>(new ArrayLibrary(kind, std::move(module), api)));
  return *libraries->back();
}

ArrayLibrary& ArrayLibrary::Plain() { return Make(Kind::kPlain, nb::none(), nullptr); }

bool ArrayLibrary::Classify(nb::handle object, TypeEntry& entry) {
  const nb::handle type = object.type();
  if (nb::isinstance<HostTensor>(object)) {
    entry.library = &Plain();
    entry.protocol = Protocol::kHostTensor;
    return true;
  }
  if (IsOf(type, "numpy")) {
    entry.library = &Make(Kind::kNumpy, nb::module_::import_("numpy"), nullptr);
    entry.protocol = Protocol::kBuffer;
    return true;
  }
  const dlpack::ExchangeApi* api = ExchangeApiOf(type);
  entry.protocol = api != nullptr ? Protocol::kExchange : Protocol::kDlpack;
  if (IsOf(type, "torch") && Has(type, "__dlpack__")) {
    entry.library = &Make(Kind::kTorch, nb::module_::import_("torch"), api);
  } else if (api != nullptr) {
    entry.library = &Make(Kind::kExchanged, nb::none(), api);
  } else if (!Has(type, "__dlpack__")) {
    if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
    entry.library = &Plain();
    entry.protocol = Protocol::kBuffer;
  } else if (IsOf(type, "cupy")) {
    entry.library = &Make(Kind::kCupy, nb::module_::import_("cupy"), nullptr);
  } else if (Has(type, "__array_namespace__")) {
    entry.library = &Make(Kind::kArrayApi, object.attr("__array_namespace__")(), nullptr);
  } else {
    entry.library = &Plain();
  }
  return true;
}

// The entry of an object's type, valid until the next call; null if the object is not a tensor.
ArrayLibrary::TypeEntry* ArrayLibrary::EntryOf(nb::handle object) {
  constexpr size_t kMost = 64;  // bounds the memory for programs that create many types
  static auto* entries = new std::vector<TypeEntry>();
  static size_t last = 0;
  const nb::handle type = object.type();
  if (last < entries->size() && (*entries)[last].type.is(type)) return &(*entries)[last];
  for (size_t i = 0; i < entries->size(); ++i) {
    if (!(*entries)[i].type.is(type)) continue;
    last = i;
    return &(*entries)[i];
  }
  TypeEntry entry{nb::borrow(type)};
  if (!Classify(object, entry)) return nullptr;
  if (entries->size() >= kMost) entries->clear();
  entries->push_back(std::move(entry));
  last = entries->size() - 1;
  return &entries->back();
}

ArrayLibrary* ArrayLibrary::Of(nb::handle object) {
  const TypeEntry* entry = EntryOf(object);
  return entry == nullptr ? nullptr : entry->library;
}

bool ArrayLibrary::IsOnGpu(nb::handle object) const {
  return EntryOf(object)->protocol == Protocol::kDlpack &&
         DlpackDevice(object).type == dlpack::kCuda;
}

void* ArrayLibrary::CurrentStream(int gpu) {
  if (api_ != nullptr) {
    void* stream = nullptr;
    if (api_->current_stream(dlpack::kCuda, gpu, &stream) != 0) throw nb::python_error();
    return stream;
  }
  const nb::object cuda = module_.attr("cuda");
  const nb::object address = kind_ == Kind::kTorch
                                 ? cuda.attr("current_stream")(gpu).attr("cuda_stream")
                                 : cuda.attr("get_current_stream")().attr("ptr");
  return reinterpret_cast<void*>(nb::cast<uintptr_t>(address));
}

void ArrayLibrary::Read(nb::handle object, void* stream, bool writable, TensorView& view) {
  switch (EntryOf(object)->protocol) {
    case Protocol::kExchange:
      return ReadExchanged(*api_, object, view);
    case Protocol::kHostTensor:
      return nb::inst_ptr<HostTensor>(object)->View(view);
    case Protocol::kBuffer:
      return kind_ == Kind::kNumpy ? ReadNumpy(object, writable, view)
                                   : ReadBuffer(object, writable, view);
    case Protocol::kDlpack:
      return ReadDlpack(object, stream, view);
  }
}

// NumPy exports ml_dtypes' bfloat16 through no protocol, so such an array is read as an array of
// integers.
void ArrayLibrary::ReadNumpy(nb::handle object, bool writable, TensorView& view) {
  try {
    return ReadBuffer(object, writable, view);
  } catch (nb::python_error&) {
    const std::string name = nb::cast<std::string>(object.attr("dtype").attr("name"));
    if (name != "bfloat16") throw;
  }
  ReadBuffer(object.attr("view")("uint16"), writable, view);
  view.dtype = FUSEC_BF16;
}

nb::object ArrayLibrary::DtypeObject(fusec_dtype dtype) {
  nb::object& object = dtypes_[dtype];
  if (object.is_valid()) return object;
  if (kind_ != Kind::kNumpy) {
    if (!Has(module_, ArrayName(dtype)))
      Raise(FUSEC_BAD_USAGE, "an output is " + std::string(fusec_dtype_name(dtype)) +
                                 ", which the library of the inputs does not have");
    return object = module_.attr(ArrayName(dtype));
  }
  nb::object name = nb::cast(ArrayName(dtype));
  if (dtype == FUSEC_BF16) {
    try {
      name = nb::module_::import_("ml_dtypes").attr("bfloat16");
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_ImportError)) throw;
      Raise(FUSEC_BAD_USAGE,
            "an output is bf16, which NumPy has with the package ml_dtypes only; install it, or "
            "give tensors of another library");
    }
  }
  return object = module_.attr("dtype")(name);
}

// The keyword arguments of torch.empty for a tensor on a device.
nb::dict ArrayLibrary::TorchOptions(fusec_dtype dtype, int gpu) {
  for (const TorchOption& option : torch_options_) {
    if (option.dtype == dtype && option.gpu == gpu) return option.keywords;
  }
  nb::dict keywords;
  keywords["dtype"] = DtypeObject(dtype);
  keywords["device"] = module_.attr("device")(GpuName(gpu));
  torch_options_.push_back({dtype, gpu, keywords});
  return keywords;
}

// A view of the first elements of a dense tensor.
nb::object FirstElements(nb::handle tensor, const std::vector<int64_t>& dims) {
  if (nb::isinstance<HostTensor>(tensor))
    return nb::cast(nb::cast<const HostTensor&>(tensor).FirstElements(dims));
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  const nb::object flat = tensor.attr("reshape")(-1);
  return flat[nb::slice(static_cast<Py_ssize_t>(count))].attr("reshape")(ShapeTuple(dims));
}

Output ArrayLibrary::AllocateExchanged(fusec_dtype dtype, const std::vector<int64_t>& dims,
                                       int gpu) {
  Output output;
  const dlpack::Device device = {gpu < 0 ? dlpack::kCpu : dlpack::kCuda, gpu < 0 ? 0 : gpu};
  dlpack::Tensor prototype = {nullptr,
                              device,
                              static_cast<int32_t>(dims.size()),
                              ToDlpack(dtype),
                              const_cast<int64_t*>(dims.data()),
                              nullptr,
                              0};
  dlpack::ManagedTensorVersioned* managed = nullptr;
  if (api_->allocate(&prototype, &managed, nullptr, SetError) != 0) throw nb::python_error();
  output.view.data = static_cast<char*>(managed->tensor.data) + managed->tensor.byte_offset;
  output.view.dtype = dtype;
  output.view.dims = dims;
  output.view.is_on_gpu = gpu >= 0;
  output.view.gpu = gpu;
  void* object = nullptr;
  if (api_->object_from_managed(managed, &object) != 0) throw nb::python_error();
  output.object = nb::steal(static_cast<PyObject*>(object));
  return output;
}

Output ArrayLibrary::Allocate(fusec_dtype dtype, const std::vector<int64_t>& dims, int gpu,
                              nb::handle like, void* stream) {
  // On a GPU, torch.empty takes 2 us less than the same through DLPack (tests/gpu/python_checks.py,
  // results of 2026-11-25: 4.3 us of 6.5); in host memory it takes longer.
  const bool by_torch = kind_ == Kind::kTorch && (api_ == nullptr || gpu >= 0);
  if (api_ != nullptr && !by_torch) return AllocateExchanged(dtype, dims, gpu);
  Output output;
  const bool as_host_tensor = kind_ == Kind::kPlain || (kind_ == Kind::kArrayApi && gpu < 0);
  if (as_host_tensor) {
    size_t bytes = fusec_dtype_bytes(dtype);
    for (const int64_t dim : dims) bytes *= static_cast<size_t>(dim);
    const HostTensor tensor(std::make_shared<HostMemory>(bytes), dtype, dims);
    tensor.View(output.view);
    output.object = nb::cast(tensor);
    return output;
  }
  const nb::tuple shape = ShapeTuple(dims);
  if (kind_ == Kind::kNumpy) {
    output.object = empty_(shape, DtypeObject(dtype));
    ReadNumpy(output.object, true, output.view);
    return output;
  }
  if (by_torch) {
    const nb::tuple arguments = nb::make_tuple(shape);
    PyObject* made = PyObject_Call(empty_.ptr(), arguments.ptr(), TorchOptions(dtype, gpu).ptr());
    if (made == nullptr) throw nb::python_error();
    output.object = nb::steal(made);
  } else if (kind_ == Kind::kCupy) {
    output.object = empty_(shape, DtypeObject(dtype));
  } else {
    output.object = empty_(shape, nb::arg("dtype") = DtypeObject(dtype),
                           nb::arg("device") = like.attr("device"));
  }
  if (api_ != nullptr)
    ReadExchanged(*api_, output.object, output.view);
  else
    ReadDlpack(output.object, stream, output.view);
  return output;
}

nb::object ArrayLibrary::Finish(Output output, const std::vector<int64_t>& dims) {
  output.view.owner.Release();
  if (dims != output.view.dims) output.object = FirstElements(output.object, dims);
  if (kind_ == Kind::kArrayApi && !output.view.is_on_gpu)
    return module_.attr("from_dlpack")(output.object);
  return output.object;
}

nb::object ArrayLibrary::DenseCopy(nb::handle object) {
  switch (kind_) {
    case Kind::kTorch:
      return object.attr("clone")(nb::arg("memory_format") = module_.attr("contiguous_format"));
    case Kind::kCupy:
      return module_.attr("array")(object, nb::arg("order") = "C");
    case Kind::kArrayApi:
      return module_.attr("asarray")(object, nb::arg("copy") = true);
    default:
      return nb::object();
  }
}

}  // namespace fusec::python
