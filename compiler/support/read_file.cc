#include "compiler/support/read_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace fusec {

Result<std::string> ReadWholeFile(const std::string& path, ErrorKind kind) {
  const auto fail = [&] { return Fail(kind, path + ": cannot be read: " + std::strerror(errno)); };
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return fail();
  // Streams can open folders and fail at the first read, some with an exception.
  if (S_ISDIR(status.st_mode)) return Fail(kind, path + ": is a folder, expected a file");
  // Models and inputs may come through a pipe; reading other files from one could block forever.
  const bool may_be_pipe = kind == ErrorKind::kModel || kind == ErrorKind::kInput;
  if (!S_ISREG(status.st_mode) && !may_be_pipe) return Fail(kind, path + ": is not a file");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (!file) return fail();
  std::string bytes;
  if (S_ISREG(status.st_mode)) bytes.reserve(static_cast<size_t>(status.st_size));
  char piece[1 << 16];
  for (size_t count; (count = std::fread(piece, 1, sizeof piece, file.get())) > 0;) {
    bytes.append(piece, count);
  }
  if (std::ferror(file.get())) return fail();
  return bytes;
}

}  // namespace fusec
