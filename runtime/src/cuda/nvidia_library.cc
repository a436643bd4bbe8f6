#include "runtime/src/cuda/nvidia_library.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

namespace fusec::runtime {
namespace {

bool IsFolder(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

// The folder below site-packages in which NVIDIA's wheels put the libraries of CUDA 13.
constexpr const char* kWheelFolder = "/nvidia/cu13/lib";

// The folders of NVIDIA's wheels in a virtual environment, for every Python version in it, sorted.
std::vector<std::string> WheelFolders(const std::string& environment) {
  std::vector<std::string> folders;
  DIR* pythons = opendir(Text(environment, "/lib").c_str());
  if (pythons == nullptr) return folders;
  while (const dirent* python = readdir(pythons)) {
    const std::string_view name = python->d_name;
    std::string folder = Text(environment, "/lib/", name, "/site-packages", kWheelFolder);
    if (name.starts_with("python3") && IsFolder(folder)) folders.push_back(std::move(folder));
  }
  closedir(pythons);
  std::sort(folders.begin(), folders.end());
  return folders;
}

// The folders of the executable and of the library that holds this code (the same unless the
// runtime is a shared library).
std::vector<std::string> OwnFolders() {
  std::vector<std::string> folders;
  char path[PATH_MAX];
  if (realpath("/proc/self/exe", path) != nullptr) folders.push_back(FolderOf(path));
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&OwnFolders), &info) != 0 && info.dli_fname != nullptr &&
      realpath(info.dli_fname, path) != nullptr) {
    const std::string folder = FolderOf(path);
    if (folders.empty() || folder != folders[0]) folders.push_back(folder);
  }
  return folders;
}

}  // namespace

std::vector<std::string> SetUpWheelFolders(const std::string& own) {
  std::string build = own;
  for (int above = 0; above <= 2 && !build.empty(); ++above, build = FolderOf(build)) {
    if (access(Text(build, "/CMakeCache.txt").c_str(), F_OK) == 0) {
      return WheelFolders(FolderOf(build) + "/.deps/venv");
    }
  }
  return {};
}

std::vector<std::string> NvidiaLibraryPaths(const std::string& soname,
                                            const char* override_variable) {
  const char* override_path = std::getenv(override_variable);
  if (override_path != nullptr && *override_path != '\0') {
    return {IsFolder(override_path) ? Text(override_path, "/", soname) : override_path};
  }
  std::vector<std::string> folders;
  const char* cuda_home = std::getenv("CUDA_HOME");
  if (cuda_home != nullptr && *cuda_home != '\0') folders.push_back(Text(cuda_home, "/lib64"));
  folders.push_back("/usr/local/cuda/lib64");
  for (const std::string& own : OwnFolders()) {
    folders.push_back(own);
    // In a wheel of fusec, the folder fusec/bin or fusec/lib is in the same site-packages.
    std::string beside = FolderOf(FolderOf(own)) + kWheelFolder;
    if (IsFolder(beside)) folders.push_back(std::move(beside));
    for (std::string& folder : SetUpWheelFolders(own)) folders.push_back(std::move(folder));
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
    const bool is_file = path.find('/') != std::string::npos;
    if (is_file && access(path.c_str(), F_OK) != 0) {
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
