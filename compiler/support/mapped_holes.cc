#include "compiler/support/mapped_holes.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace fusec {
namespace {

constexpr size_t kLeastBytes = size_t{1} << 20;

// The holes of all mapped files, by address.
struct Registry {
  std::mutex mutex;
  std::map<const std::byte*, size_t> bytes;
};

Registry& AllHoles() {
  static Registry& registry = *new Registry;
  return registry;
}

}  // namespace

MappedHoles::MappedHoles(int descriptor, std::span<const std::byte> mapping) {
  const auto size = static_cast<off_t>(mapping.size());
  Registry& all = AllHoles();
  const std::lock_guard lock(all.mutex);
  for (off_t begin = 0; begin < size;) {
    const off_t hole = lseek(descriptor, begin, SEEK_HOLE);
    if (hole < 0 || hole >= size) break;
    const off_t data = lseek(descriptor, hole, SEEK_DATA);
    const off_t end = data < 0 ? size : data;  // ENXIO: there is no more data
    const auto bytes = static_cast<size_t>(end - hole);
    if (bytes >= kLeastBytes) {
      holes_.push_back(mapping.data() + hole);
      all.bytes[holes_.back()] = bytes;
    }
    begin = end;
  }
}

MappedHoles::~MappedHoles() {
  Registry& all = AllHoles();
  const std::lock_guard lock(all.mutex);
  for (const std::byte* hole : holes_) all.bytes.erase(hole);
}

size_t HoleBytes(const std::byte* bytes, size_t count) {
  Registry& all = AllHoles();
  const std::lock_guard lock(all.mutex);
  auto hole = all.bytes.upper_bound(bytes);
  if (hole == all.bytes.begin()) return 0;
  --hole;
  const std::byte* const end = hole->first + hole->second;
  return bytes < end ? std::min(count, static_cast<size_t>(end - bytes)) : 0;
}

std::span<const std::byte> Zeros() {
  static constexpr size_t kBytes = 8 << 20;
  static const std::byte zeros[kBytes] = {};
  return zeros;
}

}  // namespace fusec
