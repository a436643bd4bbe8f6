#pragma once

#include <fusec/fusec.h>

#include <cstddef>
#include <initializer_list>
#include <string>

namespace fusec::runtime {

// A program on the first GPU with one context, through the C API. The first error is kept, and later calls do nothing.
class Session {
 public:
  explicit Session(const std::string& path) {
    Check(fusec_load(path.c_str(), "cuda", &program_));
    NewContext();
  }
  explicit Session(fusec_program* shared) : program_(shared), owns_program_(false) { NewContext(); }
  ~Session() {
    fusec_destroy_context(context_);
    if (owns_program_) fusec_unload(program_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  bool ok() const { return status_ == FUSEC_OK; }
  fusec_status status() const { return status_; }
  const std::string& error() const { return error_; }
  void Forget() {
    status_ = FUSEC_OK;
    error_.clear();
  }
  fusec_program* program() { return program_; }
  fusec_context* context() { return context_; }

  void Input(int i, const void* data, std::initializer_list<int64_t> dims, bool on_device = false) {
    if (!ok()) return;
    Check(fusec_bind_input(context_, i, data, dims.begin(), static_cast<int>(dims.size()),
                           on_device));
  }
  void BindOutput(int i, void* data, size_t bytes, bool on_device = false) {
    if (ok()) Check(fusec_bind_output(context_, i, data, bytes, on_device));
  }
  void Run() {
    if (ok()) Check(fusec_run(context_));
  }
  void RunAsync(void* stream) {
    if (ok()) Check(fusec_run_async(context_, stream));
  }
  void Synchronize() {
    if (ok()) Check(fusec_synchronize(context_));
  }
  const std::byte* Output(int i) {
    size_t bytes = 0;
    return static_cast<const std::byte*>(fusec_get_output(context_, i, &bytes));
  }
  template <class T>
  const T* OutputAs(int i) {
    return reinterpret_cast<const T*>(Output(i));
  }

 private:
  void NewContext() {
    if (ok()) Check(fusec_create_context(program_, &context_));
  }
  void Check(fusec_status status) {
    if (status == FUSEC_OK || !ok()) return;
    status_ = status;
    error_ = fusec_last_error();
  }
  fusec_program* program_ = nullptr;
  fusec_context* context_ = nullptr;
  bool owns_program_ = true;
  fusec_status status_ = FUSEC_OK;
  std::string error_;
};

}  // namespace fusec::runtime
