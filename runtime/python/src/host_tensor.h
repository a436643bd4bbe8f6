// fusec.Tensor: a dense tensor in host memory, for callers without an array library, and for
// memory that a GPU copies from directly.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "runtime/python/src/program.h"
#include "runtime/python/src/tensor_view.h"

namespace fusec::python {

class HostTensor {
 public:
  HostTensor(std::shared_ptr<HostMemory> memory, fusec_dtype dtype, std::vector<int64_t> dims);

  fusec_dtype dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  size_t bytes() const;
  void View(TensorView& view) const;  // does not set an owner
  // A tensor with other dims in the same memory.
  HostTensor FirstElements(std::vector<int64_t> dims) const {
    return HostTensor(memory_, dtype_, std::move(dims));
  }
  // A capsule "dltensor_versioned" or, for libraries older than DLPack 1.0, "dltensor".
  nb::object ToDlpack(bool versioned, bool copy) const;
  int FillBuffer(PyObject* self, Py_buffer* buffer, int flags) const;

  static void Declare(nb::module_& module);

 private:
  std::shared_ptr<HostMemory> memory_;
  fusec_dtype dtype_;
  std::vector<int64_t> dims_;
  std::vector<Py_ssize_t> shape_, strides_bytes_;  // in the form of the buffer protocol
};

}  // namespace fusec::python
