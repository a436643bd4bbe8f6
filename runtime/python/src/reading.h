// Reading the caller's tensors, for all calls that have tensors as arguments.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "runtime/python/src/errors.h"
#include "runtime/python/src/tensor_view.h"

namespace fusec::python {

inline std::string DeviceOf(const TensorView& view) {
  return view.is_on_gpu ? "on cuda:" + std::to_string(view.gpu) : "in host memory";
}

inline std::string TypeName(nb::handle object) {
  return nb::str(object.type().attr("__qualname__")).c_str();
}

// Runs `read`; an error that the object raises becomes a BadInput that names the tensor `what`.
template <class Body>
void Reading(const std::string& what, Body read) {
  try {
    read();
  } catch (const Unreadable& error) {
    Raise(FUSEC_BAD_INPUT, what + " cannot be read: " + error.what());
  } catch (nb::python_error& error) {
    RaiseBadTensor(what, error);
  }
}

}  // namespace fusec::python
