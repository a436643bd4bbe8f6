#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/src/status.h"

namespace fusec::runtime {

// A file mapped for reading. The descriptor stays open, so that dlopen can be given the very file
// whose bytes were checked.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // A file that cannot be opened is a FUSEC_BAD_ARTIFACT error naming it.
  static StatusOr<MappedFile> Open(const std::string& path);

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  // Lets `part` of bytes() be written in the memory of this process: pages that are written to are
  // copied, the file stays as it is. FUSEC_NO_DEVICE without memory for it.
  StatusOr<std::span<std::byte>> MakeWritable(std::span<const std::byte> part);
  int descriptor() const { return descriptor_; }
  // Whether the file still has all bytes that are mapped: reading what somebody cut off would end
  // the process.
  bool IsWhole() const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int descriptor_ = -1;
};

}  // namespace fusec::runtime
