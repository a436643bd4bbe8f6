#include "runtime/python/src/context.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "runtime/python/src/errors.h"
#include "runtime/python/src/host_tensor.h"
#include "runtime/python/src/process.h"
#include "runtime/python/src/reading.h"

namespace fusec::python {
namespace {

constexpr uintptr_t kGpuAlignment = 16;  // needed by kernels that use device memory in place
// About the time of handing the GIL from thread to thread; a shorter run does not release it.
constexpr std::chrono::nanoseconds kHandover = std::chrono::microseconds(5);

bool IsMisaligned(const TensorView& view) {
  return view.is_on_gpu && view.elements() > 0 &&
         reinterpret_cast<uintptr_t>(view.data) % kGpuAlignment != 0;
}

bool Overlap(const TensorView& a, const TensorView& b) {
  const auto* a_start = static_cast<const char*>(a.data);
  const auto* b_start = static_cast<const char*>(b.data);
  return a_start < b_start + b.bytes() && b_start < a_start + a.bytes();
}

std::string Names(const std::vector<TensorSignature>& tensors) {
  std::string names;
  for (const TensorSignature& tensor : tensors)
    names += (names.empty() ? "\"" : ", \"") + tensor.name + "\"";
  return names.empty() ? "none" : names;
}

std::string Utf8(PyObject* text) {
  const char* utf8 = PyUnicode_AsUTF8AndSize(text, nullptr);
  if (utf8 == nullptr) throw nb::python_error();
  return utf8;
}

}  // namespace

class Context::Use {
 public:
  explicit Use(Context& context) : context_(context) {
    context.program_->CheckNotForked();
    if (context.in_use_)
      Raise(FUSEC_BAD_USAGE,
            "the context runs in another thread; each thread needs its own (model.context())");
    context.in_use_ = true;
  }
  ~Use() {
    std::fill(context_.arguments_.begin(), context_.arguments_.end(), nb::handle());
    for (TensorView& view : context_.inputs_) view.owner.Release();
    for (auto& copy : context_.copies_) copy.reset();
    context_.in_use_ = false;
  }
  Use(const Use&) = delete;

 private:
  Context& context_;
};

Context::Context(std::shared_ptr<Program> program) : program_(std::move(program)) {
  program_->CheckNotForked();
  Check(fusec_create_context(program_->handle(), &handle_));
  const size_t inputs = program_->inputs().size();
  arguments_.resize(inputs);
  libraries_.resize(inputs);
  inputs_.resize(inputs);
  copies_.resize(inputs);
  bound_dims_.resize(inputs);
  for (const TensorSignature& output : program_->outputs())
    output_dims_.emplace_back(output.dims.size());
}

Context::~Context() {
  if (program_->is_of_this_process()) fusec_destroy_context(handle_);
}

size_t Context::FindInput(PyObject* name) const {
  const auto& inputs = program_->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].key.ptr() == name) return i;  // both are interned
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (PyUnicode_Compare(inputs[i].key.ptr(), name) == 0) return i;
  }
  Raise(FUSEC_BAD_INPUT,
        "there is no input \"" + Utf8(name) + "\", the model has " + Names(inputs));
}

void Context::CollectInputs(PyObject* arguments, Py_ssize_t skipped, PyObject* by_name) {
  const auto& inputs = program_->inputs();
  const Py_ssize_t given = PyTuple_Size(arguments) - skipped;
  if (given > static_cast<Py_ssize_t>(inputs.size()))
    Raise(FUSEC_BAD_INPUT, std::to_string(given) + " tensors were given, the model takes " +
                               std::to_string(inputs.size()) + ": " + Names(inputs));
  for (Py_ssize_t i = 0; i < given; ++i)
    arguments_[static_cast<size_t>(i)] = PyTuple_GetItem(arguments, skipped + i);
  PyObject *name, *tensor;
  for (Py_ssize_t at = 0; by_name != nullptr && PyDict_Next(by_name, &at, &name, &tensor);) {
    const size_t i = FindInput(name);
    if (arguments_[i].is_valid())
      Raise(FUSEC_BAD_INPUT, inputs[i].Quoted("input") + " is given by place and by name");
    arguments_[i] = tensor;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!arguments_[i].is_valid())
      Raise(FUSEC_BAD_INPUT,
            inputs[i].Quoted("input") + " is missing, the model takes " + Names(inputs));
    libraries_[i] = ArrayLibrary::Of(arguments_[i]);
    if (libraries_[i] == nullptr)
      Raise(FUSEC_BAD_INPUT, inputs[i].Quoted("input") + " is of type " + TypeName(arguments_[i]) +
                                 ", expected a tensor " + inputs[i].type());
  }
}

void* Context::StreamFor(ArrayLibrary& library, const Given& given) const {
  if (given.any_on_gpu) return given.stream;
  return library.is_stream_ordered() || !library.needs_stream()
             ? library.CurrentStream(program_->gpu())
             : stream();
}

void Context::NoteGpuTensor(ArrayLibrary& library, nb::handle tensor, Given& given) const {
  if (!given.any_on_gpu) {
    given.stream = StreamFor(library, given);
    given.library = &library;
    given.like = tensor;
    given.any_on_gpu = true;
    given.must_wait = given.must_wait || !library.is_stream_ordered();
    return;
  }
  if (&library == given.library) return;
  given.must_wait = true;
  // Such a library does not order its work with a given stream, so its current stream must be the
  // one.
  if (!library.needs_stream() && library.CurrentStream(program_->gpu()) != given.stream)
    Raise(FUSEC_BAD_INPUT, "the tensors are of two libraries that work on different streams");
}

void Context::CheckInput(size_t i) const {
  const TensorSignature& input = program_->inputs()[i];
  const TensorView& view = inputs_[i];
  if (view.dtype != input.dtype)
    Raise(FUSEC_BAD_INPUT,
          input.Quoted("input") + " is " + view.type() + ", expected " + input.type());
  if (view.is_on_gpu && view.gpu != program_->gpu())
    Raise(FUSEC_BAD_INPUT, input.Quoted("input") + " is " + DeviceOf(view) +
                               ", but the model runs on " + fusec_device_name(program_->handle()));
}

void Context::MakeDense(size_t i, ArrayLibrary& library, void* stream) {
  TensorView& view = inputs_[i];
  const bool is_misaligned = IsMisaligned(view);
  if (view.is_dense && !is_misaligned) return;
  const TensorSignature& input = program_->inputs()[i];
  const std::string why =
      view.is_dense ? "does not start at a multiple of 16 bytes" : "is not contiguous";
  if (program_->is_strict())
    Raise(FUSEC_BAD_INPUT, input.Quoted("input") + " " + why + ", and strict=True allows no copy");
  program_->WarnOfCopy(i, why);
  if (!view.is_on_gpu) {
    copies_[i] = std::make_unique<HostMemory>(view.bytes());
    CopyDense(view, copies_[i]->data());
    view.data = copies_[i]->data();
    return;
  }
  const nb::object copy = library.DenseCopy(arguments_[i]);
  if (!copy.is_valid()) Raise(FUSEC_BAD_INPUT, input.Quoted("input") + " " + why);
  library.Read(copy, stream, false, view);
  if (!library.needs_stream()) view.owner = MemoryOwner(copy);
  if (!view.is_dense || IsMisaligned(view))
    Raise(FUSEC_BAD_INPUT, input.Quoted("input") + " " + why + ", nor does its copy");
}

void Context::ReadInput(size_t i, Given& given) {
  ArrayLibrary& library = *libraries_[i];
  const nb::handle tensor = arguments_[i];
  const TensorSignature& input = program_->inputs()[i];
  void* stream = nullptr;
  Reading(input.Quoted("input"), [&] {
    if (library.needs_stream() && library.IsOnGpu(tensor)) {
      if (!program_->is_on_gpu())
        Raise(FUSEC_BAD_INPUT, input.Quoted("input") + " is on a GPU, but the model runs on " +
                                   fusec_device_name(program_->handle()));
      stream = StreamFor(library, given);
    }
    library.Read(tensor, stream, false, inputs_[i]);
  });
  CheckInput(i);
  if (inputs_[i].is_on_gpu) {
    NoteGpuTensor(library, tensor, given);
  } else {
    given.must_wait = true;
    if (given.library == nullptr) {
      given.library = &library;
      given.like = tensor;
    }
  }
  MakeDense(i, library, given.stream);
}

// Libraries that do not order their work with a given stream determine the stream, so their tensors
// are read first.
Context::Given Context::ReadInputs() {
  Given given;
  given.must_wait = program_->has_run_time_dims();
  bool any_needs_stream = false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (libraries_[i]->needs_stream())
      any_needs_stream = true;
    else
      ReadInput(i, given);
  }
  for (size_t i = 0; any_needs_stream && i < inputs_.size(); ++i) {
    if (libraries_[i]->needs_stream()) ReadInput(i, given);
  }
  // The first tensor determines the library of the results, unless a tensor is on the GPU.
  if (!given.any_on_gpu && !inputs_.empty()) {
    given.library = libraries_[0];
    given.like = arguments_[0];
  }
  if (given.library == nullptr) given.library = &ArrayLibrary::Plain();
  return given;
}

void Context::BindInputs() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const TensorView& view = inputs_[i];
    Check(fusec_bind_input(handle_, static_cast<int>(i), view.data, view.dims.data(),
                           static_cast<int>(view.dims.size()), view.is_on_gpu));
    if (view.dims == bound_dims_[i]) continue;
    bound_dims_[i] = view.dims;
    output_dims_are_current_ = false;
    last_run_ = kUnknown;
  }
  if (output_dims_are_current_) return;
  for (size_t i = 0; i < output_dims_.size(); ++i)
    Check(fusec_output_bounds(handle_, static_cast<int>(i), output_dims_[i].data()));
  output_dims_are_current_ = true;
}

// The actual dims of a result after a run.
std::vector<int64_t> Context::ResultDims(size_t i) {
  std::vector<int64_t> dims = output_dims_[i];
  if (program_->outputs()[i].has_run_time_dims)
    Check(fusec_output_dims(handle_, static_cast<int>(i), dims.data()));
  return dims;
}

void Context::BindOutput(size_t i, const TensorView& view) {
  Check(fusec_bind_output(handle_, static_cast<int>(i), view.data, view.bytes(), view.is_on_gpu));
}

void Context::Run(const Given& given) {
  NoteRun();
  const bool is_async = given.any_on_gpu && !given.must_wait;
  const bool on_own_stream = !given.any_on_gpu || given.stream == stream();
  may_still_run_ = true;
  // A run on a GPU always releases the GIL, even if it only enqueues: if the queue is full it waits
  // for the GPU, which may itself wait for a host function that needs the GIL.
  const bool keeps_gil = !program_->is_on_gpu() && last_run_ < kHandover;
  Check([&] {
    std::optional<WithoutGil> released;
    if (!keeps_gil) released.emplace();
    const auto start = std::chrono::steady_clock::now();
    fusec_status status;
    if (!is_async && on_own_stream) {
      status = fusec_run(handle_);
    } else {
      status = fusec_run_async(handle_, given.stream);
      if (!is_async && status == FUSEC_OK) status = fusec_synchronize(handle_);
    }
    last_run_ = std::chrono::steady_clock::now() - start;
    return status;
  }());
  may_still_run_ = is_async;
}

nb::object Context::Call(PyObject* arguments, Py_ssize_t skipped, PyObject* by_name) {
  const Use use(*this);
  CollectInputs(arguments, skipped, by_name);
  const Given given = ReadInputs();
  BindInputs();
  std::vector<Output> outputs;
  outputs.reserve(output_dims_.size());
  const int gpu = given.any_on_gpu ? program_->gpu() : -1;
  for (size_t i = 0; i < output_dims_.size(); ++i) {
    outputs.push_back(given.library->Allocate(program_->outputs()[i].dtype, output_dims_[i], gpu,
                                              given.like, given.stream));
    BindOutput(i, outputs[i].view);
  }
  Run(given);
  if (outputs.size() == 1) return given.library->Finish(std::move(outputs[0]), ResultDims(0));
  nb::list results;
  for (size_t i = 0; i < outputs.size(); ++i)
    results.append(given.library->Finish(std::move(outputs[i]), ResultDims(i)));
  return nb::tuple(results);
}

std::vector<nb::object> Context::CollectOutputs(nb::handle outputs) const {
  const auto& signatures = program_->outputs();
  std::vector<nb::object> tensors;
  if (nb::isinstance<nb::dict>(outputs)) {
    for (const TensorSignature& output : signatures) {
      PyObject* tensor = PyDict_GetItemWithError(outputs.ptr(), output.key.ptr());
      if (tensor == nullptr) {
        if (PyErr_Occurred()) throw nb::python_error();
        Raise(FUSEC_BAD_INPUT,
              output.Quoted("output") + " is missing, the model has " + Names(signatures));
      }
      tensors.push_back(nb::borrow(tensor));
    }
    if (nb::len(outputs) != signatures.size())
      Raise(FUSEC_BAD_INPUT, std::to_string(nb::len(outputs)) +
                                 " outputs were given, the model has " + Names(signatures));
    return tensors;
  }
  if (nb::isinstance<nb::tuple>(outputs) || nb::isinstance<nb::list>(outputs)) {
    for (const nb::handle tensor : outputs) tensors.push_back(nb::borrow(tensor));
  } else {
    tensors.push_back(nb::borrow(outputs));
  }
  if (tensors.size() != signatures.size())
    Raise(FUSEC_BAD_INPUT, std::to_string(tensors.size()) + " outputs were given, the model has " +
                               std::to_string(signatures.size()) + ": " + Names(signatures));
  return tensors;
}

void Context::CheckOutput(size_t i, const TensorView& view) const {
  const TensorSignature& output = program_->outputs()[i];
  const auto refuse = [&](const std::string& why) {
    Raise(FUSEC_BAD_INPUT, output.Quoted("output") + " " + why);
  };
  if (view.dtype != output.dtype || view.dims != output_dims_[i]) {
    TensorView expected;
    expected.dtype = output.dtype;
    expected.dims = output_dims_[i];
    refuse("is " + view.type() + ", expected " + expected.type());
  }
  if (view.is_on_gpu && view.gpu != program_->gpu())
    refuse("is " + DeviceOf(view) + ", but the model runs on " +
           fusec_device_name(program_->handle()));
  if (!view.is_dense) refuse("is not contiguous");
  if (IsMisaligned(view)) refuse("does not start at a multiple of 16 bytes");
  if (view.is_read_only) refuse("is read-only");
  for (size_t input = 0; input < inputs_.size(); ++input) {
    const bool is_in_place = static_cast<int>(input) == output.in_place_of;
    if (is_in_place && view.data == inputs_[input].data) continue;
    if (Overlap(view, inputs_[input]))
      refuse("shares memory with " + program_->inputs()[input].Quoted("input"));
  }
}

nb::object Context::RunInto(nb::handle outputs, PyObject* arguments, Py_ssize_t skipped,
                            PyObject* by_name) {
  const Use use(*this);
  CollectInputs(arguments, skipped, by_name);
  Given given = ReadInputs();
  BindInputs();
  const std::vector<nb::object> tensors = CollectOutputs(outputs);
  std::vector<TensorView> views(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorSignature& output = program_->outputs()[i];
    ArrayLibrary* library = ArrayLibrary::Of(tensors[i]);
    if (library == nullptr)
      Raise(FUSEC_BAD_INPUT, output.Quoted("output") + " is of type " + TypeName(tensors[i]) +
                                 ", expected a tensor " + output.type());
    Reading(output.Quoted("output"), [&] {
      const bool asks = program_->is_on_gpu() && library->needs_stream();
      void* stream = asks && library->IsOnGpu(tensors[i]) ? StreamFor(*library, given) : nullptr;
      library->Read(tensors[i], stream, true, views[i]);
    });
    CheckOutput(i, views[i]);
    if (views[i].is_on_gpu)
      NoteGpuTensor(*library, tensors[i], given);
    else
      given.must_wait = true;
    BindOutput(i, views[i]);
  }
  Run(given);
  if (!program_->has_run_time_dims()) return nb::none();
  nb::list shapes;
  for (size_t i = 0; i < views.size(); ++i) {
    nb::list shape;
    for (const int64_t dim : ResultDims(i)) shape.append(dim);
    shapes.append(nb::tuple(shape));
  }
  return nb::tuple(shapes);
}

void Context::Synchronize() {
  const Use use(*this);
  Check([&] {
    const WithoutGil released;
    return fusec_synchronize(handle_);
  }());
  may_still_run_ = false;
}

void* Context::stream() const { return fusec_stream(handle_); }

size_t Context::scratch_bytes() const { return fusec_context_bytes(handle_); }

}  // namespace fusec::python
