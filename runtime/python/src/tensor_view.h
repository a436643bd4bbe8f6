// The memory of a caller's tensor, read through the buffer protocol or DLPack.
#pragma once

#include <fusec/fusec.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "runtime/python/src/dlpack.h"

namespace fusec::python {

namespace nb = nanobind;

// The reason why fusec cannot read a tensor: "its strides are no multiple of an element".
struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Keeps a tensor's memory alive; the GIL must be held when it is freed.
class MemoryOwner {
 public:
  MemoryOwner() = default;
  explicit MemoryOwner(nb::object object) : owner_(std::move(object)) {}
  explicit MemoryOwner(const Py_buffer& buffer) : owner_(buffer) {}
  explicit MemoryOwner(dlpack::ManagedTensor* tensor) : owner_(tensor) {}
  explicit MemoryOwner(dlpack::ManagedTensorVersioned* tensor) : owner_(tensor) {}
  MemoryOwner(MemoryOwner&& other) noexcept : owner_(std::move(other.owner_)) {
    other.owner_ = std::monostate();
  }
  MemoryOwner& operator=(MemoryOwner&& other) noexcept {
    std::swap(owner_, other.owner_);
    return *this;
  }
  ~MemoryOwner() { Release(); }
  void Release();

 private:
  std::variant<std::monostate, nb::object, Py_buffer, dlpack::ManagedTensor*,
               dlpack::ManagedTensorVersioned*>
      owner_;
};

struct TensorView {
  void* data = nullptr;
  std::optional<fusec_dtype> dtype;  // missing where fusec has no such type; `type_name` has it
  std::string type_name;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;  // in elements; only where !is_dense
  bool is_dense = true;          // row-major without gaps
  bool is_read_only = false;
  bool is_on_gpu = false;
  int gpu = -1;  // the N of cuda:N
  MemoryOwner owner;

  std::string type() const;  // "f32[64, 13]"
  int64_t elements() const;
  size_t bytes() const;
};

// Each function sets all of `view`, or throws Unreadable or the error that the object raised.
void ReadBuffer(nb::handle object, bool writable, TensorView& view);
// Reads without Python calls. The view is valid as long as the object exists.
void ReadExchanged(const dlpack::ExchangeApi& api, nb::handle object, TensorView& view);
// `stream`: the stream on which a tensor on a GPU will be used; its library makes this stream wait
// for writes to the tensor.
void ReadDlpack(nb::handle object, void* stream, TensorView& view);

// The device that object.__dlpack_device__() returns.
dlpack::Device DlpackDevice(nb::handle object);

// Copies a strided tensor in host memory to dense memory of view.bytes().
void CopyDense(const TensorView& view, void* to);

}  // namespace fusec::python
