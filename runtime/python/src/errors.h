// Errors of the C ABI as exceptions of Python.
#pragma once

#include <fusec/fusec.h>
#include <nanobind/nanobind.h>

#include <new>
#include <string>

namespace fusec::python {

namespace nb = nanobind;

// Looks up the classes of fusec._errors; called once, when the module is imported.
void FindErrorClasses();

// Throws nb::python_error with the exception class of `status`.
[[noreturn]] void Raise(fusec_status status, const std::string& message);
inline void Check(fusec_status status) {
  if (status != FUSEC_OK) Raise(status, fusec_last_error());
}

// Throws what a library raised while it handed over the tensor `what` ("input "x"") as a BadInput
// with the same text; interrupts and a lack of memory stay what they are.
[[noreturn]] void RaiseBadTensor(const std::string& what, nb::python_error& error);

// The body of a function that the interpreter calls directly: what it throws becomes the
// interpreter's error, and null its result.
template <class Body>
PyObject* Guard(Body body) noexcept {
  try {
    return body();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

// Tells once that `what` is copied, and why; where warnings are errors it throws.
void WarnOfCopy(const std::string& message);

}  // namespace fusec::python
