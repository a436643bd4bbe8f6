#include "runtime/src/cuda/kernel_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>

#include "runtime/src/artifact/hash.h"
#include "runtime/src/artifact/mapped_file.h"

namespace fusec::runtime {
namespace {

constexpr char kMagic[8] = {'f', 'u', 's', 'e', 'c', 'k', 'c', '1'};

struct EntryHeader {
  char magic[8];
  uint64_t bytes;
  char hash[32];  // of the value
};
static_assert(sizeof(EntryHeader) == 48);

std::string HashOf(std::string_view text) { return Hash128(std::as_bytes(std::span(text))); }

EntryHeader HeaderOf(std::string_view value) {
  EntryHeader header;
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.bytes = value.size();
  std::memcpy(header.hash, HashOf(value).data(), sizeof(header.hash));
  return header;
}

// The entry's value; nothing if it is missing or damaged.
std::optional<std::string> ReadEntry(const std::string& path) {
  const StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file || file->bytes().size() < sizeof(EntryHeader)) return std::nullopt;
  const std::string_view value = file->text().substr(sizeof(EntryHeader));
  const EntryHeader expected = HeaderOf(value);
  if (std::memcmp(file->bytes().data(), &expected, sizeof(expected)) != 0) return std::nullopt;
  return std::string(value);
}

void MakeFolders(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    mkdir(path.substr(0, end).c_str(), 0777);
    if (end == std::string::npos) return;
  }
}

bool WriteAll(int descriptor, const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(descriptor, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    next += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

// Writes an entry. A failure leaves no entry and is not reported, because the caller has the value.
void WriteEntry(const std::string& path, std::string_view value) {
  const std::string folder = path.substr(0, path.rfind('/'));
  MakeFolders(folder);
  std::string aside = folder + "/new-XXXXXX";
  const int descriptor = mkstemp(aside.data());
  if (descriptor < 0) return;
  const EntryHeader header = HeaderOf(value);
  bool good = WriteAll(descriptor, &header, sizeof(header)) &&
              WriteAll(descriptor, value.data(), value.size());
  good = close(descriptor) == 0 && good;
  if (!good || std::rename(aside.c_str(), path.c_str()) != 0) unlink(aside.c_str());
}

// The value of an environment variable if it is an absolute path, else "" (the XDG specification
// requires relative paths to be ignored).
std::string AbsoluteFolder(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value == '/' ? value : "";
}

}  // namespace

KernelCache KernelCache::Default() {
  const char* own = std::getenv("FUSEC_CACHE_DIR");
  if (own != nullptr && *own != '\0') return KernelCache(own);
  if (const std::string xdg = AbsoluteFolder("XDG_CACHE_HOME"); !xdg.empty()) {
    return KernelCache(xdg + "/fusec");
  }
  const std::string home = AbsoluteFolder("HOME");
  return KernelCache(home.empty() ? "" : home + "/.cache/fusec");
}

std::string KernelCache::PathOf(std::string_view key) const {
  const std::string name = HashOf(key);
  return Text(folder_, "/", name.substr(0, 2), "/", name.substr(2));
}

std::optional<std::string> KernelCache::Find(std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  return ReadEntry(PathOf(key));
}

void KernelCache::Keep(std::string_view key, std::string_view value) const {
  if (!folder_.empty()) WriteEntry(PathOf(key), value);
}

StatusOr<std::string> KernelCache::GetOrMake(
    std::string_view key, const std::function<StatusOr<std::string>()>& make) const {
  if (std::optional<std::string> value = Find(key)) return *std::move(value);
  StatusOr<std::string> made = make();
  if (made) Keep(key, *made);
  return made;
}

}  // namespace fusec::runtime
