// One call at a time on a program, from the arguments of a call in Python to its results.
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

  // The results for tensors in the model's order and by name: a tensor, or a tuple of them.
  // `arguments` is a tuple whose first `skipped` items are no inputs; `by_name` a dict or null.
  nb::object Call(PyObject* arguments, Py_ssize_t skipped, PyObject* by_name);
  // The same into tensors of the caller's: one, a sequence in the model's order, or a dict. None,
  // or with run-time dims the shapes of the results in the model's order.
  nb::object RunInto(nb::handle outputs, PyObject* arguments, Py_ssize_t skipped,
                     PyObject* by_name);

  // Waits for what runs, and raises the first error that it met.
  void Synchronize();
  void* stream() const;  // a CUstream of its own; null on the CPU
  // Whether the last run was only enqueued.
  bool may_still_run() const { return may_still_run_; }
  size_t scratch_bytes() const;

 private:
  // How the tensors of a call are given, which decides where and how it runs.
  struct Given {
    ArrayLibrary* library = nullptr;  // of the first tensor on the GPU, else of the first
    nb::handle like;                  // that tensor
    bool any_on_gpu = false;
    void* stream = nullptr;  // with tensors on the GPU: where the run goes
    // Whether the run must have ended when the call returns: a tensor is in host memory, which the
    // caller may change or free then, or of a library that does not give memory back to `stream`,
    // or only the run tells dims of results.
    bool must_wait = false;
  };
  class Use;  // while it lives, the context is in use

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
  // By input, of the call: the argument, its tensor, and the copy that is read in its place.
  std::vector<nb::handle> arguments_;
  std::vector<ArrayLibrary*> libraries_;
  std::vector<TensorView> inputs_;
  std::vector<std::unique_ptr<HostMemory>> copies_;
  // By output, for the dims of inputs that were bound last; of run-time dims the most they can be.
  std::vector<std::vector<int64_t>> bound_dims_, output_dims_;
  bool output_dims_are_current_ = false;
};

}  // namespace fusec::python
