#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "compiler/support/mapped_holes.h"
#include "compiler/support/result.h"

namespace fusec {

// A read-only memory mapping of a file that lasts as long as this object. Pages are read on first
// access, so weights need no second copy on the heap.
class MappedFile {
 public:
  enum class Links { kFollow, kReject };

  // Errors say what is wrong with the file without naming it: "does not exist", "is a folder,
  // expected a file". With kReject, a file that is reached through a symbolic link or has a second
  // (hard link) name is an error too.
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path, Links links);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile() = default;
  std::span<const std::byte> bytes_;
  std::optional<MappedHoles> holes_;
};

}  // namespace fusec
