#include "runtime/src/artifact/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fusec::runtime {

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0) close(descriptor_);
}

StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  MappedFile file;
  // With O_NONBLOCK, open also returns for a pipe without a writer.
  file.descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;
  if (file.descriptor_ < 0 || fstat(file.descriptor_, &status) != 0) {
    return Fail(FUSEC_BAD_ARTIFACT, path, ": cannot be read: ", std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) return Fail(FUSEC_BAD_ARTIFACT, path, ": is not a file");
  file.size_ = static_cast<size_t>(status.st_size);
  if (file.size_ == 0) return file;  // mmap refuses empty files
  void* data = mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, file.descriptor_, 0);
  if (data == MAP_FAILED) {
    return Fail(FUSEC_BAD_ARTIFACT, path, ": cannot be mapped: ", std::strerror(errno));
  }
  file.data_ = static_cast<const std::byte*>(data);
  return file;
}

bool MappedFile::IsWhole() const {
  struct stat status;
  return size_ == 0 ||
         (fstat(descriptor_, &status) == 0 && static_cast<size_t>(status.st_size) >= size_);
}

StatusOr<std::span<std::byte>> MappedFile::MakeWritable(std::span<const std::byte> part) {
  const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t begin = address / page_bytes * page_bytes;
  auto* pages = reinterpret_cast<void*>(begin);
  if (mprotect(pages, address + part.size() - begin, PROT_READ | PROT_WRITE) != 0) {
    return Fail(FUSEC_NO_DEVICE, "cannot make ", part.size(),
                " bytes of the weights writable: ", std::strerror(errno));
  }
  return std::span(const_cast<std::byte*>(part.data()), part.size());
}

}  // namespace fusec::runtime
