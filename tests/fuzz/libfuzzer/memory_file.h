// A file in memory, for readers that take a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "tests/fuzz/libfuzzer/expect.h"

namespace fusec {

class MemoryFile {
 public:
  MemoryFile()
      : descriptor_(memfd_create("input", 0)),
        path_("/proc/self/fd/" + std::to_string(descriptor_)) {
    Expect(descriptor_ >= 0, "the kernel makes a file in memory");
  }
  const std::string& path() const { return path_; }
  void Set(const uint8_t* data, size_t size) {
    const bool done = ftruncate(descriptor_, 0) == 0 &&
                      pwrite(descriptor_, data, size, 0) == static_cast<ssize_t>(size);
    Expect(done, "the file in memory takes the input");
  }

 private:
  const int descriptor_;
  const std::string path_;
};

}  // namespace fusec
