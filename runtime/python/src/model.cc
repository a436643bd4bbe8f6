#include "runtime/python/src/model.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "runtime/python/src/docs.h"
#include "runtime/python/src/dtype.h"
#include "runtime/python/src/errors.h"
#include "runtime/python/src/host_tensor.h"
#include "runtime/python/src/row_update.h"

namespace fusec::python {
namespace {

// From this number of idle contexts on, no more are created, and threads share those that exist.
constexpr size_t kMostIdle = 32;

}  // namespace

class Model::Lease {
 public:
  explicit Lease(Model& model) : model_(model), slot_(model.Take()) {}
  ~Lease() {
    if (!model_.is_closed()) model_.idle_.push_back(std::move(slot_));
  }
  Lease(const Lease&) = delete;
  Context* operator->() const { return slot_.context.get(); }

 private:
  Model& model_;
  Slot slot_;
};

Model::Model(const std::string& path, const std::optional<std::string>& device, bool strict)
    : program_(std::make_shared<Program>(path, device, strict)) {}

const std::shared_ptr<Program>& Model::program() const {
  if (is_closed()) Raise(FUSEC_BAD_USAGE, "the model is closed");
  return program_;
}

// Takes the context that this thread used last, if there is one, so that its stream orders the
// thread's calls. Otherwise it takes a context on which no run is in flight, or creates one.
Model::Slot Model::Take() {
  const auto& loaded = program();
  const unsigned long thread = PyThread_get_thread_ident();
  std::optional<size_t> found;
  for (size_t i = idle_.size(); i-- > 0;) {
    const Slot& slot = idle_[i];
    if (slot.thread == thread) {
      found = i;
      break;
    }
    const bool is_free = !slot.context->may_still_run() || idle_.size() >= kMostIdle;
    if (!found && is_free) found = i;
  }
  if (!found) return {std::make_unique<Context>(loaded), thread};
  Slot slot = std::move(idle_[*found]);
  idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(*found));
  slot.thread = thread;
  return slot;
}

nb::object Model::Call(PyObject* arguments, PyObject* by_name) {
  return Lease(*this)->Call(arguments, 0, by_name);
}

nb::object Model::RunInto(nb::handle outputs, PyObject* arguments, PyObject* by_name) {
  return Lease(*this)->RunInto(outputs, arguments, 1, by_name);
}

std::unique_ptr<Context> Model::NewContext() const { return std::make_unique<Context>(program()); }

void Model::Synchronize() {
  (void)program();
  // A slot is removed from the list while it is waited for, because other threads may call
  // meanwhile.
  for (size_t count = idle_.size(); count > 0 && !idle_.empty(); --count) {
    Slot slot = std::move(idle_.front());
    idle_.erase(idle_.begin());
    const auto give_back = [&] {
      if (!is_closed()) idle_.push_back(std::move(slot));
    };
    try {
      slot.context->Synchronize();
    } catch (...) {
      give_back();
      throw;
    }
    give_back();
  }
}

void* Model::stream() {
  if (!stream_owner_) stream_owner_ = NewContext();
  return stream_owner_->stream();
}

template <class Function>
void Model::Waiting(const Function& change) {
  const std::shared_ptr<Program> loaded = program();  // should another thread close the model
  loaded->CheckNotForked();
  fusec_status status;
  std::string message;
  {
    const nb::gil_scoped_release release;
    status = change(loaded->handle());
    if (status != FUSEC_OK) message = fusec_last_error();
  }
  if (status != FUSEC_OK) Raise(status, message);
}

void Model::UpdateWeights(const std::string& path) {
  Waiting([&](fusec_program* program) { return fusec_update_weights(program, path.c_str()); });
}

void Model::LoadAdapter(int slot, const std::string& path) {
  Waiting([&](fusec_program* program) { return fusec_load_adapter(program, slot, path.c_str()); });
}

void Model::UnloadAdapter(int slot) {
  Waiting([&](fusec_program* program) { return fusec_unload_adapter(program, slot); });
}

int Model::adapter_slots() const { return fusec_adapter_slots(program()->handle()); }

void Model::UpdateRows(const std::string& table, nb::handle ids, nb::handle rows) {
  const std::shared_ptr<Program> loaded = program();  // should another thread close the model
  python::UpdateRows(loaded, table, ids, rows);
}

void Model::WarmTable(const std::string& table, nb::handle ids) {
  const std::shared_ptr<Program> loaded = program();
  python::WarmTable(loaded, table, ids);
}

void Model::Close() {
  idle_.clear();
  stream_owner_.reset();
  program_.reset();
}

namespace {

template <class T>
T& Self(PyObject* self) {
  if (!nb::inst_ready(self)) Raise(FUSEC_BAD_USAGE, "the object was not made by its class");
  return *nb::inst_ptr<T>(self);
}

PyObject* CallModel(PyObject* self, PyObject* arguments, PyObject* by_name) {
  return Guard([&] { return Self<Model>(self).Call(arguments, by_name).release().ptr(); });
}

PyObject* CallContext(PyObject* self, PyObject* arguments, PyObject* by_name) {
  return Guard([&] { return Self<Context>(self).Call(arguments, 0, by_name).release().ptr(); });
}

PyType_Slot model_slots[] = {{Py_tp_call, reinterpret_cast<void*>(CallModel)}, {0, nullptr}};
PyType_Slot context_slots[] = {{Py_tp_call, reinterpret_cast<void*>(CallContext)}, {0, nullptr}};

nb::handle FirstOf(const nb::args& arguments) {
  if (arguments.size() == 0) Raise(FUSEC_BAD_USAGE, "run_into needs an output");
  return arguments[0];
}

nb::object StreamNumber(void* stream) {
  if (stream == nullptr) return nb::none();
  return nb::int_(reinterpret_cast<uintptr_t>(stream));
}

// ((name, dtype, (dim, ...)), ...): a dim is a text as in fusec.h.
nb::tuple SignatureTuple(const std::vector<TensorSignature>& tensors) {
  nb::list result;
  for (const TensorSignature& tensor : tensors) {
    nb::list dims;
    for (const std::string& dim : tensor.dims) dims.append(dim);
    result.append(nb::make_tuple(tensor.key, fusec_dtype_name(tensor.dtype), nb::tuple(dims)));
  }
  return nb::tuple(result);
}

nb::dict SymbolRanges(const Model& model) {
  nb::dict ranges;
  const fusec_program* program = model.program()->handle();
  for (int i = 0; i < fusec_symbol_count(program); ++i) {
    fusec_symbol symbol;
    Check(fusec_symbol_info(program, i, &symbol));
    ranges[symbol.name] = nb::make_tuple(symbol.min, symbol.max);
  }
  return ranges;
}

// A tuple (name, dtype, rows, columns, storage, bytes, fixed) for each table.
nb::tuple TableTuples(const Model& model) {
  nb::list tables;
  const fusec_program* program = model.program()->handle();
  for (int i = 0; i < fusec_table_count(program); ++i) {
    fusec_table table;
    Check(fusec_table_info(program, i, &table));
    tables.append(nb::make_tuple(table.name, fusec_dtype_name(table.dtype), table.rows,
                                 table.columns, table.storage, table.bytes, table.fixed));
  }
  return nb::tuple(tables);
}

uint64_t TableVersion(const Model& model, const std::string& table) {
  uint64_t version = 0;
  Check(fusec_table_version(model.program()->handle(), table.c_str(), &version));
  return version;
}

// (rows, bytes, hits, misses, loaded)
nb::tuple TableCache(const Model& model, const std::string& table) {
  fusec_cache_info info;
  Check(fusec_table_cache(model.program()->handle(), table.c_str(), &info));
  return nb::make_tuple(info.rows, info.bytes, info.hits, info.misses, info.loaded);
}

HostTensor AllocateHost(const Model& model, const std::vector<int64_t>& shape,
                        const std::string& dtype) {
  const auto known = FromName(dtype);
  if (!known) Raise(FUSEC_BAD_USAGE, "there is no dtype \"" + dtype + "\"");
  size_t bytes = fusec_dtype_bytes(*known);
  for (const int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(dim), &bytes))
      Raise(FUSEC_BAD_USAGE, "the shape is negative or too large");
  }
  return HostTensor(std::make_shared<HostMemory>(model.program(), bytes), *known, shape);
}

}  // namespace

void DeclareModel(nb::module_& module) {
  using Arguments = const nb::args&;
  using ByName = const nb::kwargs&;
  nb::class_<Context>(module, "Context", nb::type_slots(context_slots), docs::kContext)
      .def(
          "run_into",
          [](Context& context, Arguments arguments, ByName by_name) {
            return context.RunInto(FirstOf(arguments), arguments.ptr(), 1, by_name.ptr());
          },
          docs::kRunInto)
      .def("synchronize", &Context::Synchronize, docs::kSynchronize)
      .def_prop_ro(
          "stream", [](const Context& context) { return StreamNumber(context.stream()); },
          docs::kContextStream)
      .def_prop_ro("scratch_bytes", &Context::scratch_bytes, docs::kScratchBytes);

  nb::class_<Model>(module, "Model", nb::type_slots(model_slots))
      .def(nb::init<const std::string&, const std::optional<std::string>&, bool>(), nb::arg("path"),
           nb::arg("device").none() = nb::none(), nb::arg("strict") = false)
      .def(
          "run_into",
          [](Model& model, Arguments arguments, ByName by_name) {
            return model.RunInto(FirstOf(arguments), arguments.ptr(), by_name.ptr());
          },
          docs::kRunInto)
      .def("context", &Model::NewContext, docs::kNewContext)
      .def("synchronize", &Model::Synchronize, docs::kSynchronize)
      .def("_update_weights", &Model::UpdateWeights)
      .def("_update_rows", &Model::UpdateRows)
      .def("_warm_table", &Model::WarmTable)
      .def("_table_cache", TableCache)
      .def("_load_adapter", &Model::LoadAdapter)
      .def("_unload_adapter", &Model::UnloadAdapter)
      .def_prop_ro("_adapter_slots", &Model::adapter_slots)
      .def("_table_version", TableVersion)
      .def_prop_ro("_tables", TableTuples)
      .def("close", &Model::Close, docs::kClose)
      .def_prop_ro("is_closed", &Model::is_closed)
      .def_prop_ro(
          "stream", [](Model& model) { return StreamNumber(model.stream()); }, docs::kModelStream)
      .def_prop_ro(
          "device",
          [](const Model& model) {
            return std::string(fusec_device_name(model.program()->handle()));
          },
          docs::kDevice)
      .def_prop_ro(
          "weight_bytes",
          [](const Model& model) { return fusec_weight_bytes(model.program()->handle()); },
          docs::kWeightBytes)
      .def("allocate_host", AllocateHost, nb::arg("shape"), nb::arg("dtype") = "f32",
           docs::kAllocateHost)
      .def_prop_ro("_inputs",
                   [](const Model& model) { return SignatureTuple(model.program()->inputs()); })
      .def_prop_ro("_outputs",
                   [](const Model& model) { return SignatureTuple(model.program()->outputs()); })
      .def_prop_ro("_dims", SymbolRanges);
}

}  // namespace fusec::python
