#include "compiler/support/write_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace fusec {

namespace {

namespace fs = std::filesystem;

bool Write(const std::string& path, std::string_view bytes) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return static_cast<bool>(file);
}

}  // namespace

Result<void> WriteWholeFile(const std::string& path, std::string_view bytes) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  std::string reason;
  if (fs::is_directory(status)) {
    reason = std::strerror(EISDIR);
  } else if (fs::exists(status) && !fs::is_regular_file(status)) {
    if (Write(path, bytes)) return {};
    reason = std::strerror(errno);
  } else {
    const fs::path followed = fs::exists(status) ? fs::canonical(path, ignored) : fs::path(path);
    const std::string place = followed.empty() ? path : followed.string();
    const std::string aside = place + ".partial";
    if (Write(aside, bytes) && std::rename(aside.c_str(), place.c_str()) == 0) return {};
    reason = std::strerror(errno);
    std::remove(aside.c_str());
  }
  return Fail(ErrorKind::kUsage, "cannot write " + path + ": " + reason);
}

}  // namespace fusec
