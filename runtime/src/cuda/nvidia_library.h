#pragma once

#include <string>
#include <vector>

#include "runtime/src/status.h"

namespace fusec::runtime {

// Opens one of NVIDIA's libraries and leaves it open for the life of the process. If the
// environment variable `override_variable` is set (to the library or its folder), only that is
// tried; else, in this order, CUDA_HOME/lib64, /usr/local/cuda/lib64, the folders of the executable
// and of the runtime, the folder of the pip wheels (nvidia/cu13/lib) beside those, in set-up's
// virtual environment if they are in a build tree, and in VIRTUAL_ENV, and the loader's own path.
// The error is FUSEC_NO_DEVICE and names all that was tried.
StatusOr<void*> OpenNvidiaLibrary(const std::string& soname, const char* override_variable);

// The paths that OpenNvidiaLibrary tries, in order.
std::vector<std::string> NvidiaLibraryPaths(const std::string& soname,
                                            const char* override_variable);

// The folders of the wheels that set-up installed, for code of the folder `own` in a build tree:
// the folder with CMakeCache.txt, at most two above `own` (build/tests/gpu). Nothing that is
// installed has such a folder above it, so it needs no path of the machine that built it.
std::vector<std::string> SetUpWheelFolders(const std::string& own);

// The address of `name`, or an error that tells the library to be too old.
StatusOr<void*> FindSymbol(void* library, const std::string& soname, const char* name);

}  // namespace fusec::runtime
