// Converts errors of the C ABI to Python exceptions.
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

// Rethrows an error that a library raised while the tensor `what` ("input "x"") was read, as a
// BadInput with the same text. KeyboardInterrupt and MemoryError are rethrown unchanged.
[[noreturn]] void RaiseBadTensor(const std::string& what, nb::python_error& error);

// Runs the body of a function that the interpreter calls directly. If it throws, the error is set
// in the interpreter and the result is null.
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

// Issues a CopyWarning; throws if warnings are errors.
void WarnOfCopy(const std::string& message);

}  // namespace fusec::python
