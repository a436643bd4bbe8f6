#pragma once

#include <string>

#include "runtime/src/artifact/mapped_file.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// A shared library in this process, opened by its file's descriptor: these are the bytes whose hash
// was compared, and the loader, which knows libraries by name, cannot take an older one for this
// when an artifact was replaced while a program from it is still loaded.
//
// A file is opened once, and its descriptor kept, for all that use it at the same time. The loader
// would give a second descriptor of a file as a further name to the library that it has, and know
// it by that name until all are closed: the next file that gets the number would be taken for it.
class LoadedCode {
 public:
  // `path` is the file's, for errors.
  static StatusOr<LoadedCode> Of(MappedFile file, const std::string& path);
  LoadedCode() = default;
  LoadedCode(LoadedCode&& other) noexcept { *this = std::move(other); }
  LoadedCode& operator=(LoadedCode&& other) noexcept {
    std::swap(library_, other.library_);
    return *this;
  }
  ~LoadedCode();

  void* handle() const;  // of dlopen

 private:
  struct Library;
  struct Libraries;
  Library* library_ = nullptr;
};

}  // namespace fusec::runtime
