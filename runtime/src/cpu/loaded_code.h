#pragma once

#include <string>

#include "runtime/src/artifact/mapped_file.h"
#include "runtime/src/status.h"

namespace fusec::runtime {

// A shared library in this process, opened through the descriptor of its file. So the loaded bytes
// are those whose hash was compared. And the dynamic loader, which identifies libraries by name,
// cannot confuse the library with an older one if an artifact is replaced while a program of it is
// loaded.
//
// A file is opened only once, and its descriptor is kept open and shared by all users. If a file
// were opened through a second descriptor, the loader would record that descriptor's path as
// another name of the same library until all are closed, and would take the next file with this
// descriptor number for that library.
class LoadedCode {
 public:
  // `path` is the path of the file, for errors.
  static StatusOr<LoadedCode> Of(MappedFile file, const std::string& path);
  LoadedCode() = default;
  LoadedCode(LoadedCode&& other) noexcept { *this = std::move(other); }
  LoadedCode& operator=(LoadedCode&& other) noexcept {
    std::swap(library_, other.library_);
    return *this;
  }
  ~LoadedCode();

  void* handle() const;  // the handle of dlopen

 private:
  struct Library;
  struct Libraries;
  Library* library_ = nullptr;
};

}  // namespace fusec::runtime
