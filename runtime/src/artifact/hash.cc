#define XXH_INLINE_ALL  // the header contains the code, so that no library is linked
#include "runtime/src/artifact/hash.h"

#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "runtime/src/artifact/file_hash.h"

namespace fusec::runtime {
namespace {

constexpr size_t kLargeBytes = size_t{256} << 20;

std::string TextOf(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

// Adds data to the hash. With `releases_pages`, pages of a large file are removed from this
// process's memory after use, so that a table larger than memory does not displace other data; the
// page cache may keep them.
void HashData(XXH3_state_t* state, std::span<const std::byte> data, bool releases_pages) {
  constexpr size_t kPieceBytes = size_t{64} << 20;
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (size_t begin = 0; begin < data.size(); begin += kPieceBytes) {
    const auto piece = data.subspan(begin, std::min(kPieceBytes, data.size() - begin));
    XXH3_128bits_update(state, piece.data(), piece.size());
    if (!releases_pages) continue;
    const auto address = reinterpret_cast<uintptr_t>(piece.data());
    const uintptr_t first = address / page * page;
    // A failure is harmless: the pages stay.
    static_cast<void>(
        madvise(reinterpret_cast<void*>(first), address + piece.size() - first, MADV_DONTNEED));
  }
}

void HashZeros(XXH3_state_t* state, size_t count) {
  // Not const, so that the library's file does not contain it.
  static std::byte zeros[1 << 20] = {};
  for (; count > 0; count -= std::min(count, sizeof zeros))
    XXH3_128bits_update(state, zeros, std::min(count, sizeof zeros));
}

}  // namespace

std::string Hash128(std::span<const std::byte> bytes) {
  return TextOf(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string HashOfFile(const MappedFile& file) {
  const std::span<const std::byte> bytes = file.bytes();
  const auto size = static_cast<off_t>(bytes.size());
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for (off_t begin = 0; begin < size;) {
    // If the file system does not support holes, the whole file is data.
    const off_t found = lseek(file.descriptor(), begin, SEEK_HOLE);
    const off_t hole = found < 0 ? size : std::min(found, size);
    HashData(state.get(),
             bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(hole - begin)),
             bytes.size() >= kLargeBytes);
    const off_t data = hole < size ? lseek(file.descriptor(), hole, SEEK_DATA) : size;
    begin = data < 0 ? size : std::min(data, size);
    HashZeros(state.get(), static_cast<size_t>(begin - hole));
  }
  return TextOf(XXH3_128bits_digest(state.get()));
}

}  // namespace fusec::runtime
