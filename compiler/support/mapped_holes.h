#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace fusec {

// The holes of a file that is mapped for reading: ranges that have no blocks in the file system and
// read as zeros, such as a table of hundreds of gigabytes in a test. Touching a hole costs memory
// for its pages, so code that goes through all bytes of a mapping asks HoleBytes first. Holes are
// found by the constructor and forgotten by the destructor; those below 1 MiB are ignored. A file
// system without support for holes reports none.
class MappedHoles {
 public:
  // `mapping` is the mapping of the whole file.
  MappedHoles(int descriptor, std::span<const std::byte> mapping);
  ~MappedHoles();
  MappedHoles(const MappedHoles&) = delete;
  MappedHoles& operator=(const MappedHoles&) = delete;

 private:
  std::vector<const std::byte*> holes_;
};

// How many of the `count` bytes at `bytes`, counted from the first one, lie in a hole of a mapped
// file.
size_t HoleBytes(const std::byte* bytes, size_t count);

// Zeros to read instead of a hole (8 MiB). Reading them takes almost no memory.
std::span<const std::byte> Zeros();

}  // namespace fusec
