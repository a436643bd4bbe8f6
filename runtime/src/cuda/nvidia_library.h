#pragma once

#include <string>
#include <vector>

#include "runtime/src/status.h"

namespace fusec::runtime {

// Opens one of NVIDIA's libraries and keeps it open until the process ends. If the environment
// variable `override_variable` is set (to the library or its folder), only that is tried. Otherwise
// these are tried in this order: CUDA_HOME/lib64, /usr/local/cuda/lib64, the folders of the
// executable and of the runtime, the folder of the pip wheels (nvidia/cu13/lib) beside those, in
// set-up's virtual environment if they are in a build tree, and in VIRTUAL_ENV, and the loader's
// own path. The error is FUSEC_NO_DEVICE and lists all paths that were tried.
StatusOr<void*> OpenNvidiaLibrary(const std::string& soname, const char* override_variable);

// The paths that OpenNvidiaLibrary tries, in order.
std::vector<std::string> NvidiaLibraryPaths(const std::string& soname,
                                            const char* override_variable);

// The folders of the wheels that set-up installed, for code in the folder `own` of a build tree.
// The build tree is found by its CMakeCache.txt, at most two folders above `own` (build/tests/gpu).
// So no path of the build machine is compiled in, and installed code, which has no such file above
// it, gets no folders.
std::vector<std::string> SetUpWheelFolders(const std::string& own);

// The address of `name`, or an error that the library is too old.
StatusOr<void*> FindSymbol(void* library, const std::string& soname, const char* name);

}  // namespace fusec::runtime
