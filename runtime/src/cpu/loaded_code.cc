#include "runtime/src/cpu/loaded_code.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

namespace fusec::runtime {

namespace {

using FileId = std::pair<dev_t, ino_t>;

}  // namespace

struct LoadedCode::Library {
  FileId id;
  MappedFile file;
  void* handle = nullptr;
  int users = 0;
};

// The libraries of this process; never freed, because programs may exist until the process ends.
struct LoadedCode::Libraries {
  static Libraries& Get() {
    static auto* libraries = new Libraries;
    return *libraries;
  }
  std::mutex mutex;
  std::map<FileId, Library> by_file;
};

StatusOr<LoadedCode> LoadedCode::Of(MappedFile file, const std::string& path) {
  struct stat status;
  if (fstat(file.descriptor(), &status) != 0)
    return Fail(FUSEC_BAD_ARTIFACT, path, ": cannot be read: ", std::strerror(errno));
  const FileId id(status.st_dev, status.st_ino);
  Libraries& libraries = Libraries::Get();
  const std::lock_guard lock(libraries.mutex);
  LoadedCode code;
  auto found = libraries.by_file.find(id);
  if (found == libraries.by_file.end()) {
    void* handle = dlopen(Text("/proc/self/fd/", file.descriptor()).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* reason = dlerror();
      return Fail(FUSEC_BAD_ARTIFACT, path, ": cannot be loaded: ", reason ? reason : "");
    }
    found = libraries.by_file.emplace(id, Library{id, std::move(file), handle, 0}).first;
  }
  ++found->second.users;
  code.library_ = &found->second;
  return code;
}

LoadedCode::~LoadedCode() {
  if (library_ == nullptr) return;
  Libraries& libraries = Libraries::Get();
  const std::lock_guard lock(libraries.mutex);
  if (--library_->users > 0) return;
  dlclose(library_->handle);
  libraries.by_file.erase(library_->id);
}

void* LoadedCode::handle() const { return library_->handle; }

}  // namespace fusec::runtime
