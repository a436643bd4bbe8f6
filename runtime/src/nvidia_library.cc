#include "runtime/src/nvidia_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace fusec::runtime {
namespace {

namespace fs = std::filesystem;

// What `pip install nvidia-...` leaves in a virtual environment, for every Python in it, in a
// stable order.
std::vector<std::string> WheelFolders(const fs::path& environment) {
  std::vector<std::string> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(environment / "lib", error)) {
    if (entry.path().filename().string().rfind("python3", 0) != 0) continue;
    const fs::path folder = entry.path() / "site-packages/nvidia/cu13/lib";
    if (fs::is_directory(folder, error)) folders.push_back(folder.string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// The folders of the executable and of the library that holds this code (the same unless the
// runtime is a shared library).
std::vector<fs::path> OwnFolders() {
  std::vector<fs::path> folders;
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(executable.parent_path());
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&OwnFolders), &info) != 0 && info.dli_fname != nullptr) {
    const fs::path library = fs::canonical(info.dli_fname, error);
    if (!error && (folders.empty() || library.parent_path() != folders[0])) {
      folders.push_back(library.parent_path());
    }
  }
  return folders;
}

}  // namespace

std::vector<std::string> NvidiaLibraryPaths(const std::string& soname,
                                            const char* override_variable) {
  const char* override_path = std::getenv(override_variable);
  if (override_path != nullptr && *override_path != '\0') {
    std::error_code error;
    const fs::path path = override_path;
    return {fs::is_directory(path, error) ? (path / soname).string() : path.string()};
  }
  std::vector<std::string> folders;
  const char* cuda_home = std::getenv("CUDA_HOME");
  if (cuda_home != nullptr && *cuda_home != '\0') folders.push_back(Text(cuda_home, "/lib64"));
  folders.push_back("/usr/local/cuda/lib64");
#ifdef FUSEC_BUILD_ENVIRONMENT
  for (std::string& folder : WheelFolders(FUSEC_BUILD_ENVIRONMENT)) folders.push_back(folder);
#endif
  for (const fs::path& own : OwnFolders()) {
    folders.push_back(own.string());
    for (std::string& folder : WheelFolders(own.parent_path() / ".deps/venv")) {
      folders.push_back(folder);
    }
  }
  const char* environment = std::getenv("VIRTUAL_ENV");
  if (environment != nullptr && *environment != '\0') {
    for (std::string& folder : WheelFolders(environment)) folders.push_back(folder);
  }
  std::vector<std::string> paths;
  for (const std::string& folder : folders) {
    std::string path = Text(folder, "/", soname);
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
  }
  paths.push_back(soname);
  return paths;
}

StatusOr<void*> OpenNvidiaLibrary(const std::string& soname, const char* override_variable) {
  std::string tried;
  for (const std::string& path : NvidiaLibraryPaths(soname, override_variable)) {
    std::error_code error;
    const bool is_file = path.find('/') != std::string::npos;
    if (is_file && !fs::exists(path, error)) {
      tried += Text(tried.empty() ? "" : "; ", path, ": not there");
      continue;
    }
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* reason = dlerror();
    tried += Text(tried.empty() ? "" : "; ", is_file ? path + ": " : "",
                  reason == nullptr ? "cannot be opened" : reason);
  }
  return Fail(FUSEC_NO_DEVICE, soname, " not found (tried ", tried,
              "); install CUDA 13 or its pip wheel, or set ", override_variable, " to the library");
}

StatusOr<void*> FindSymbol(void* library, const std::string& soname, const char* name) {
  if (void* address = dlsym(library, name)) return address;
  return Fail(FUSEC_NO_DEVICE, soname, " has no function ", name,
              "; a library of CUDA 13.0 or newer is needed");
}

}  // namespace fusec::runtime
