// The extension module fusec._native: the runtime's C ABI for Python. Users import
// fusec/__init__.py.
#include <fusec/fusec.h>
#include <nanobind/nanobind.h>

#include "runtime/python/src/errors.h"
#include "runtime/python/src/host_tensor.h"
#include "runtime/python/src/model.h"
#include "runtime/python/src/process.h"
#include "runtime/python/src/serving.h"

NB_MODULE(_native, module) {
  using namespace fusec::python;
  if (fusec_abi_version() != FUSEC_ABI_VERSION) {
    PyErr_Format(PyExc_ImportError, "libfusec_rt.so has ABI %d, this module was built for %d",
                 fusec_abi_version(), FUSEC_ABI_VERSION);
    throw nb::python_error();
  }
  nb::set_leak_warnings(false);  // because models may exist until the process ends
  FindErrorClasses();
  WatchForks();
  HostTensor::Declare(module);
  DeclareModel(module);
  DeclareServing(module);
  module.def("version", [] { return fusec_version(); });
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(ShutDown));
}
