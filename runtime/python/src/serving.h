// The classes of fusec.serve that are in C++: the queue of a model's requests, and the HTTP server
// of a replica that listens itself.
#pragma once

#include <nanobind/nanobind.h>

namespace fusec::python {

void DeclareServing(nanobind::module_& module);

}  // namespace fusec::python
