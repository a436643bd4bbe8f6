#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/src/status.h"

namespace fusec::runtime {

// A file mapped for reading. The descriptor stays open, so that dlopen can open exactly the file
// whose bytes were checked.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Opens and maps a file. Failures are FUSEC_BAD_ARTIFACT errors that name the file.
  static StatusOr<MappedFile> Open(const std::string& path);

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  // Makes `part` of bytes() writable in this process: pages that are written to are copied, and the
  // file does not change. FUSEC_NO_DEVICE: there is not enough memory.
  StatusOr<std::span<std::byte>> MakeWritable(std::span<const std::byte> part);
  int descriptor() const { return descriptor_; }
  // Whether the file still has all mapped bytes; reading truncated ones would end the process.
  bool IsWhole() const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int descriptor_ = -1;
};

}  // namespace fusec::runtime
