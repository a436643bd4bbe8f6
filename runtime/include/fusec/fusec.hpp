// The C++ face of fusec's runtime: owners around the handles of fusec.h, header only. Errors are
// thrown as fusec::Exception.
//
//   fusec::Program program("model_fused");
//   fusec::Context context(program);
//   context.BindInput("dense", dense.data(), {batch, 13});
//   context.Run();
//   std::span<const float> scores = context.Output<float>("scores");
#pragma once

#include <fusec/fusec.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace fusec {

class Exception : public std::runtime_error {
 public:
  Exception(fusec_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  fusec_status status() const { return status_; }

 private:
  fusec_status status_;
};

namespace internal {
inline void Check(fusec_status status) {
  if (status != FUSEC_OK) throw Exception(status, fusec_last_error());
}
}  // namespace internal

struct TensorInfo {
  std::string name;
  fusec_dtype dtype = FUSEC_F32;
  std::vector<std::string> dims;  // each "13" or an expression such as "batch*27"
};

// A loaded artifact; any number of threads may use it.
class Program {
 public:
  // `device`: "cpu", "cuda", "cuda:1", or null for a GPU where there is one, else the CPU.
  explicit Program(const std::string& artifact_path, const char* device = nullptr) {
    internal::Check(fusec_load(artifact_path.c_str(), device, &handle_));
  }
  Program(Program&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Program& operator=(Program&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Program() { fusec_unload(handle_); }

  fusec_program* handle() const { return handle_; }
  std::string device_name() const { return fusec_device_name(handle_); }

  std::vector<TensorInfo> Inputs() const {
    return Describe(fusec_input_count(handle_), fusec_input_info);
  }
  std::vector<TensorInfo> Outputs() const {
    return Describe(fusec_output_count(handle_), fusec_output_info);
  }

 private:
  using InfoFunction = fusec_status (*)(const fusec_program*, int, fusec_tensor_info*);
  std::vector<TensorInfo> Describe(int count, InfoFunction describe) const {
    std::vector<TensorInfo> tensors;
    for (int i = 0; i < count; ++i) {
      fusec_tensor_info info;
      internal::Check(describe(handle_, i, &info));
      tensors.push_back({info.name, info.dtype, {info.dims, info.dims + info.rank}});
    }
    return tensors;
  }

  fusec_program* handle_ = nullptr;
};

// One call at a time on a program, which must outlive it. Tensors are named or counted as in the
// signature.
class Context {
 public:
  explicit Context(const Program& program)
      : inputs_(program.Inputs()), outputs_(program.Outputs()) {
    internal::Check(fusec_create_context(program.handle(), &handle_));
  }
  Context(Context&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)),
        inputs_(std::move(other.inputs_)),
        outputs_(std::move(other.outputs_)) {}
  Context& operator=(Context&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(inputs_, other.inputs_);
    std::swap(outputs_, other.outputs_);
    return *this;
  }
  ~Context() { fusec_destroy_context(handle_); }

  fusec_context* handle() const { return handle_; }

  // The memory must stay valid until the run has finished.
  void BindInput(int i, const void* data, const std::vector<int64_t>& dims,
                 bool on_device = false) {
    internal::Check(fusec_bind_input(handle_, i, data, dims.data(), static_cast<int>(dims.size()),
                                     on_device));
  }
  void BindInput(const std::string& name, const void* data, const std::vector<int64_t>& dims,
                 bool on_device = false) {
    BindInput(Find(inputs_, name, "input"), data, dims, on_device);
  }
  void BindOutput(int i, void* data, size_t bytes, bool on_device = false) {
    internal::Check(fusec_bind_output(handle_, i, data, bytes, on_device));
  }
  void BindOutput(const std::string& name, void* data, size_t bytes, bool on_device = false) {
    BindOutput(Find(outputs_, name, "output"), data, bytes, on_device);
  }

  std::vector<int64_t> OutputDims(int i) {
    std::vector<int64_t> dims(outputs_.at(static_cast<size_t>(i)).dims.size());
    internal::Check(fusec_output_dims(handle_, i, dims.data()));
    return dims;
  }
  std::vector<int64_t> OutputDims(const std::string& name) {
    return OutputDims(Find(outputs_, name, "output"));
  }

  void Run() { internal::Check(fusec_run(handle_)); }
  void RunAsync(void* stream) { internal::Check(fusec_run_async(handle_, stream)); }
  void Synchronize() { internal::Check(fusec_synchronize(handle_)); }

  // The elements of an output that was not bound, valid until the next run.
  template <class T>
  std::span<const T> Output(int i) {
    size_t bytes = 0;
    const void* data = fusec_get_output(handle_, i, &bytes);
    if (!data)
      throw Exception(FUSEC_BAD_USAGE, "output " + std::to_string(i) + " has no result here");
    return {static_cast<const T*>(data), bytes / sizeof(T)};
  }
  template <class T>
  std::span<const T> Output(const std::string& name) {
    return Output<T>(Find(outputs_, name, "output"));
  }

 private:
  static int Find(const std::vector<TensorInfo>& tensors, const std::string& name,
                  const std::string& what) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].name == name) return static_cast<int>(i);
    }
    throw Exception(FUSEC_BAD_INPUT, "there is no " + what + " \"" + name + "\"");
  }

  fusec_context* handle_ = nullptr;
  std::vector<TensorInfo> inputs_, outputs_;
};

}  // namespace fusec
