#include "compiler/import/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fusec {
namespace {

struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

Result<void> CheckKind(const struct stat& status, MappedFile::Links links) {
  if (S_ISDIR(status.st_mode)) return ModelError("is a folder, expected a file");
  if (!S_ISREG(status.st_mode)) return ModelError("is no regular file");
  if (links == MappedFile::Links::kReject && status.st_nlink > 1) {
    return ModelError("is a hard link (the file has " + std::to_string(status.st_nlink) +
                      " names), expected a plain file");
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path, Links links) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const int no_follow = links == Links::kReject ? O_NOFOLLOW : 0;
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | no_follow)};
  if (file.number < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return ModelError("does not exist");
    if (errno == ELOOP) return ModelError("is a symbolic link, expected a plain file");
    return ModelError(std::string("cannot be opened: ") + std::strerror(errno));
  }
  struct stat status;
  if (fstat(file.number, &status) != 0) {
    return ModelError(std::string("cannot be examined: ") + std::strerror(errno));
  }
  FUSEC_TRY(CheckKind(status, links));

  std::shared_ptr<MappedFile> mapped(new MappedFile);
  const size_t size = static_cast<size_t>(status.st_size);
  if (size > 0) {
    void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
    if (address == MAP_FAILED) {
      return ModelError(std::string("cannot be mapped into memory: ") + std::strerror(errno));
    }
    mapped->bytes_ = {static_cast<const std::byte*>(address), size};
    mapped->holes_.emplace(file.number, mapped->bytes_);
  }
  return std::shared_ptr<const MappedFile>(std::move(mapped));
}

MappedFile::~MappedFile() {
  holes_.reset();  // before another mapping may have these addresses
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace fusec
