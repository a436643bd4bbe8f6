#include "compiler/driver/artifact/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace fusec {

namespace {

constexpr std::string_view kEndSignature = "PK\5\6", kEnd64Signature = "PK\6\6",
                           kEnd64Locator = "PK\6\7";
constexpr std::string_view kDirectorySignature = "PK\1\2", kLocalSignature = "PK\3\4";
constexpr uint32_t kInExtra32 = 0xffffffff;  // the number is in the 64-bit extra field instead
constexpr uint16_t kZip64ExtraId = 1;

template <class T>
std::optional<T> Number(std::string_view bytes, uint64_t at) {
  T value = 0;
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return std::nullopt;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// A part of the archive, or nothing if it does not lie inside.
std::optional<std::string_view> Part(std::string_view bytes, uint64_t at, uint64_t size) {
  if (at > bytes.size() || bytes.size() - at < size) return std::nullopt;
  return bytes.substr(at, size);
}

bool SignatureAt(std::string_view bytes, uint64_t at, std::string_view signature) {
  return Part(bytes, at, signature.size()) == signature;
}

struct Directory {
  uint64_t offset = 0, count = 0;
};

std::optional<Directory> FindDirectory(std::string_view archive) {
  const size_t end = archive.rfind(kEndSignature);
  if (end == std::string_view::npos || !Part(archive, end, 22)) return std::nullopt;
  const auto count = Number<uint16_t>(archive, end + 10);
  const auto offset = Number<uint32_t>(archive, end + 16);
  if (!count || !offset) return std::nullopt;
  if (end >= 20 && SignatureAt(archive, end - 20, kEnd64Locator)) {
    const uint64_t end64 = *Number<uint64_t>(archive, end - 20 + 8);
    const auto count64 = Number<uint64_t>(archive, end64 + 32),
               offset64 = Number<uint64_t>(archive, end64 + 48);
    if (!SignatureAt(archive, end64, kEnd64Signature) || !count64 || !offset64) return std::nullopt;
    return Directory{*offset64, *count64};
  }
  return Directory{*offset, *count};
}

struct Entry {
  std::string name;
  uint16_t method = 0;
  uint32_t checksum = 0;
  uint64_t packed_size = 0, size = 0, local_offset = 0, next = 0;
};

std::optional<Entry> ReadEntry(std::string_view archive, uint64_t at) {
  const auto header = Part(archive, at, 46);
  if (!header || !header->starts_with(kDirectorySignature)) return std::nullopt;
  Entry entry;
  entry.method = *Number<uint16_t>(*header, 10);
  entry.checksum = *Number<uint32_t>(*header, 16);
  entry.packed_size = *Number<uint32_t>(*header, 20);
  entry.size = *Number<uint32_t>(*header, 24);
  const uint16_t name_size = *Number<uint16_t>(*header, 28),
                 extra_size = *Number<uint16_t>(*header, 30);
  const uint16_t comment_size = *Number<uint16_t>(*header, 32);
  entry.local_offset = *Number<uint32_t>(*header, 42);
  const auto name = Part(archive, at + 46, name_size);
  const auto extra = Part(archive, at + 46 + name_size, extra_size);
  if (!name || !extra) return std::nullopt;
  entry.name = *name;
  entry.next = at + 46 + name_size + extra_size + comment_size;
  // The zip64 field holds only the numbers that do not fit in 32 bits, in this order.
  for (uint64_t field = 0; field + 4 <= extra->size();) {
    const uint16_t id = *Number<uint16_t>(*extra, field),
                   size = *Number<uint16_t>(*extra, field + 2);
    uint64_t position = field + 4;
    field += 4 + size;
    if (id != kZip64ExtraId) continue;
    for (uint64_t* number : {&entry.size, &entry.packed_size, &entry.local_offset}) {
      if (*number != kInExtra32) continue;
      const auto value = Number<uint64_t>(*extra, position);
      if (!value) return std::nullopt;
      *number = *value;
      position += 8;
    }
  }
  return entry;
}

std::optional<std::string> Inflate(std::string_view packed, uint64_t size) {
  // Deflate compresses by 1032 to 1 at most. A larger size is wrong, and must not make this
  // function allocate that much memory.
  if (size / 1032 > packed.size() + 1) return std::nullopt;
  std::string bytes(size, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return std::nullopt;
  // The sizes that zlib takes have 32 bits.
  constexpr uint64_t kPiece = 1u << 30;
  uint64_t read = 0, written = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    if (stream.avail_in == 0) {
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + read));
      stream.avail_in = static_cast<uInt>(std::min(kPiece, packed.size() - read));
      read += stream.avail_in;
    }
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + written);
    stream.avail_out = static_cast<uInt>(std::min(kPiece, size - written));
    const uInt room = stream.avail_out;
    state = inflate(&stream, Z_NO_FLUSH);
    written += room - stream.avail_out;
  }
  inflateEnd(&stream);
  if (state != Z_STREAM_END || written != size) return std::nullopt;
  return bytes;
}

std::optional<std::string> Unpack(std::string_view archive, const Entry& entry) {
  constexpr uint16_t kStored = 0, kDeflated = 8;
  if (!SignatureAt(archive, entry.local_offset, kLocalSignature)) return std::nullopt;
  const auto name_size = Number<uint16_t>(archive, entry.local_offset + 26);
  const auto extra_size = Number<uint16_t>(archive, entry.local_offset + 28);
  if (!name_size || !extra_size) return std::nullopt;
  const auto packed =
      Part(archive, entry.local_offset + 30 + *name_size + *extra_size, entry.packed_size);
  if (!packed) return std::nullopt;
  std::optional<std::string> bytes;
  if (entry.method == kStored && entry.packed_size == entry.size) bytes = std::string(*packed);
  if (entry.method == kDeflated) bytes = Inflate(*packed, entry.size);
  if (!bytes) return std::nullopt;
  const uLong checksum = crc32_z(0, reinterpret_cast<const Bytef*>(bytes->data()), bytes->size());
  return checksum == entry.checksum ? bytes : std::nullopt;
}

}  // namespace

Result<std::vector<ZipMember>> ReadZip(std::string_view archive, const std::string& name) {
  const auto directory = FindDirectory(archive);
  if (!directory) return Fail(ErrorKind::kInput, name + ": is not a zip archive");
  std::vector<ZipMember> members;
  uint64_t at = directory->offset;
  for (uint64_t i = 0; i < directory->count; ++i) {
    const auto entry = ReadEntry(archive, at);
    if (!entry) return Fail(ErrorKind::kInput, name + ": has a damaged directory");
    auto bytes = Unpack(archive, *entry);
    if (!bytes)
      return Fail(ErrorKind::kInput,
                  name + ": " + entry->name + " is damaged or packed in an unknown way");
    members.push_back({entry->name, *std::move(bytes)});
    at = entry->next;
  }
  return members;
}

}  // namespace fusec
