#define XXH_INLINE_ALL  // no library to link
#include "runtime/src/artifact/hash.h"

#include <xxhash.h>

namespace fusec::runtime {

std::string Hash128(std::span<const std::byte> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace fusec::runtime
