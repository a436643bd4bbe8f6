#include "runtime/python/src/errors.h"

namespace fusec::python {
namespace {

// Never freed, because they are used until the interpreter has ended.
struct Classes {
  nb::object bad_usage, no_device, bad_artifact, bad_input, copy_warning;
};
Classes* classes = nullptr;

const nb::object& ClassOf(fusec_status status) {
  switch (status) {
    case FUSEC_NO_DEVICE:
      return classes->no_device;
    case FUSEC_BAD_ARTIFACT:
      return classes->bad_artifact;
    case FUSEC_BAD_INPUT:
      return classes->bad_input;
    default:
      return classes->bad_usage;
  }
}

}  // namespace

void FindErrorClasses() {
  const nb::module_ errors = nb::module_::import_("fusec._errors");
  classes =
      new Classes{errors.attr("BadUsage"), errors.attr("NoDevice"), errors.attr("BadArtifact"),
                  errors.attr("BadInput"), errors.attr("CopyWarning")};
}

void Raise(fusec_status status, const std::string& message) {
  // Names come from a model and need not be UTF-8.
  PyObject* text =
      PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace");
  if (text != nullptr) {
    PyErr_SetObject(ClassOf(status).ptr(), text);
    Py_DECREF(text);
  }
  throw nb::python_error();
}

void RaiseBadTensor(const std::string& what, nb::python_error& error) {
  const bool is_of_data = error.matches(PyExc_Exception) && !error.matches(PyExc_MemoryError) &&
                          !error.matches(classes->bad_input);
  if (!is_of_data) throw std::move(error);
  std::string text = nb::str(error.value()).c_str();
  text = text.substr(0, text.find('\n'));  // PyTorch appends stack frames
  nb::raise_from(error, classes->bad_input.ptr(), "%s cannot be read: %s", what.c_str(),
                 text.c_str());
}

void WarnOfCopy(const std::string& message) {
  if (PyErr_WarnEx(classes->copy_warning.ptr(), message.c_str(), 1) != 0) throw nb::python_error();
}

}  // namespace fusec::python
