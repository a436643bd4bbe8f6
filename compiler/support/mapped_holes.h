#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace fusec {

// The holes of a file that is mapped for reading: ranges that the file system keeps no blocks for
// and that read as zeros, such as a table of hundreds of gigabytes in a test. Touching a hole costs
// memory for its pages, so whoever goes through all bytes of a mapping asks HoleBytes first. Holes
// are found when this is made, and forgotten with it; ones below 1 MiB do not count. A file system
// that knows none has none.
class MappedHoles {
 public:
  // Of a whole file that is mapped at `mapping`.
  MappedHoles(int descriptor, std::span<const std::byte> mapping);
  ~MappedHoles();
  MappedHoles(const MappedHoles&) = delete;
  MappedHoles& operator=(const MappedHoles&) = delete;

 private:
  std::vector<const std::byte*> holes_;
};

// How many of the `count` bytes at `bytes` lie in a hole of a mapped file, from the first one on.
size_t HoleBytes(const std::byte* bytes, size_t count);

// Zeros in the place of a hole. Reading them takes no memory.
std::span<const std::byte> Zeros();

}  // namespace fusec
