#include "runtime/python/src/program.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime/python/src/errors.h"
#include "runtime/python/src/process.h"

namespace fusec::python {
namespace {

constexpr size_t kAlignment = 64;

using Describe = fusec_status (*)(const fusec_program*, int, fusec_tensor_info*);

std::vector<TensorSignature> Signatures(const fusec_program* program, int count,
                                        Describe describe) {
  std::vector<TensorSignature> tensors;
  for (int i = 0; i < count; ++i) {
    fusec_tensor_info info;
    Check(describe(program, i, &info));
    PyObject* key =
        PyUnicode_DecodeUTF8(info.name, static_cast<Py_ssize_t>(std::strlen(info.name)), "replace");
    if (key == nullptr) throw nb::python_error();
    PyUnicode_InternInPlace(&key);
    tensors.push_back({info.name, info.dtype, {info.dims, info.dims + info.rank}, nb::steal(key)});
  }
  return tensors;
}

}  // namespace

std::string TensorSignature::type() const {
  std::string text = std::string(fusec_dtype_name(dtype)) + "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ", ") + dims[i];
  return text + "]";
}

std::string TensorSignature::Quoted(const char* what) const {
  return std::string(what) + " \"" + name + "\"";
}

Program::Program(const std::string& path, const std::optional<std::string>& device, bool strict)
    : fork_count_(ForkCount()), strict_(strict) {
  const char* device_name = device ? device->c_str() : nullptr;
  CheckMayLoad(device_name);
  Check([&] {
    const WithoutGil released;
    return fusec_load(path.c_str(), device_name, &handle_);
  }());
  const char* name = fusec_device_name(handle_);
  if (std::strncmp(name, "cuda:", 5) == 0) gpu_ = std::atoi(name + 5);
  if (is_on_gpu()) NoteCuda();
  inputs_ = Signatures(handle_, fusec_input_count(handle_), fusec_input_info);
  outputs_ = Signatures(handle_, fusec_output_count(handle_), fusec_output_info);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].has_run_time_dims = fusec_output_has_run_time_dims(handle_, static_cast<int>(i));
    outputs_[i].in_place_of = fusec_output_in_place_of(handle_, static_cast<int>(i));
    has_run_time_dims_ = has_run_time_dims_ || outputs_[i].has_run_time_dims;
  }
  warned_.resize(inputs_.size());
}

// A forked child has the handle, but not the GPU and the threads of the process that loaded the
// program.
Program::~Program() {
  if (is_of_this_process()) fusec_unload(handle_);
}

bool Program::is_of_this_process() const { return fork_count_ == ForkCount(); }

void Program::CheckNotForked() const {
  if (is_of_this_process()) return;
  Raise(FUSEC_BAD_USAGE,
        "the model was loaded before this process was forked; load it in the process that runs it");
}

void Program::WarnOfCopy(size_t input, const std::string& why) {
  if (warned_[input]) return;
  warned_[input] = true;
  python::WarnOfCopy(inputs_[input].Quoted("input") + " " + why +
                     ", so every call copies it first (said once; strict=True refuses it)");
}

HostMemory::HostMemory(size_t bytes) {
  data_ = std::aligned_alloc(
      kAlignment, (std::max(bytes, size_t{1}) + kAlignment - 1) / kAlignment * kAlignment);
  if (data_ == nullptr) throw std::bad_alloc();
}

HostMemory::HostMemory(std::shared_ptr<Program> program, size_t bytes)
    : program_(std::move(program)) {
  program_->CheckNotForked();
  Check(fusec_allocate_host(program_->handle(), bytes, &data_));
}

HostMemory::~HostMemory() {
  if (program_ == nullptr)
    std::free(data_);
  else if (program_->is_of_this_process())
    fusec_free_host(program_->handle(), data_);
}

}  // namespace fusec::python
