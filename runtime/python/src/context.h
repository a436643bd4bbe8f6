// Runs one call at a time on a program, from the arguments of the Python call to its results.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <memory>
#include <vector>

#include "runtime/python/src/array_library.h"
#include "runtime/python/src/program.h"

namespace fusec::python {

class Context {
 public:
  // `strict` and the signature are the program's.
  explicit Context(std::shared_ptr<Program> program);
  ~Context();
  Context(const Context&) = delete;

  // Runs with tensors in the model's order and by name; returns a tensor, or a tuple of tensors.
  // `arguments` is a tuple whose first `skipped` items are not inputs; `by_name` is a dict or null.
  nb::object Call(PyObject* arguments, Py_ssize_t skipped, PyObject* by_name);
  // The same, but writes the results to the caller's tensors: one, a sequence in the model's order,
  // or a dict. Returns None, or with run-time dims the shapes of the results in the model's order.
  nb::object RunInto(nb::handle outputs, PyObject* arguments, Py_ssize_t skipped,
                     PyObject* by_name);

  // Waits for running work, and raises its first error.
  void Synchronize();
  void* stream() const;  // the context's own CUstream; null on the CPU
  // Whether the last run was only enqueued, so that it may not have finished.
  bool may_still_run() const { return may_still_run_; }
  size_t scratch_bytes() const;

 private:
  // Properties of the tensors of a call, which determine where and how it runs.
  struct Given {
    ArrayLibrary* library = nullptr;  // of the first tensor on the GPU, or else of the first tensor
    nb::handle like;                  // that tensor
    bool any_on_gpu = false;
    void* stream = nullptr;  // with tensors on the GPU: the stream of the run
    // Whether the run must have ended when the call returns: because a tensor is in host memory,
    // which the caller may then change or free, or of a library that does not free memory in the
    // order of `stream`, or because dims of results depend on the data.
    bool must_wait = false;
  };
  class Use;  // marks the context as in use as long as it exists

  void CollectInputs(PyObject* arguments, Py_ssize_t skipped, PyObject* by_name);
  size_t FindInput(PyObject* name) const;
  Given ReadInputs();
  void ReadInput(size_t i, Given& given);
  // The stream on which a tensor of the library on the GPU is used.
  void* StreamFor(ArrayLibrary& library, const Given& given) const;
  void NoteGpuTensor(ArrayLibrary& library, nb::handle tensor, Given& given) const;
  void CheckInput(size_t i) const;
  void MakeDense(size_t i, ArrayLibrary& library, void* stream);
  void BindInputs();
  std::vector<int64_t> ResultDims(size_t i);
  void BindOutput(size_t i, const TensorView& view);
  void CheckOutput(size_t i, const TensorView& view) const;
  std::vector<nb::object> CollectOutputs(nb::handle outputs) const;
  void Run(const Given& given);

  std::shared_ptr<Program> program_;
  fusec_context* handle_ = nullptr;
  bool in_use_ = false;
  bool may_still_run_ = false;
  static constexpr std::chrono::nanoseconds kUnknown = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds last_run_ = kUnknown;  // how long it took, with the dims bound now
  // For each input of the call: the argument, its tensor, and the copy that is read instead, if
  // any.
  std::vector<nb::handle> arguments_;
  std::vector<ArrayLibrary*> libraries_;
  std::vector<TensorView> inputs_;
  std::vector<std::unique_ptr<HostMemory>> copies_;
  // Dims of each output for the input dims that were bound last; upper bounds of run-time dims.
  std::vector<std::vector<int64_t>> bound_dims_, output_dims_;
  bool output_dims_are_current_ = false;
};

}  // namespace fusec::python
