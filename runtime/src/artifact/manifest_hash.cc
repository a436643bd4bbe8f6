#include "runtime/src/artifact/manifest_hash.h"

#include <span>

#include "runtime/src/artifact/hash.h"
#include "runtime/src/artifact/manifest.h"

namespace fusec::runtime {

Status CheckManifestHash(std::string_view json, const std::string& file) {
  constexpr size_t kDigits = 32;
  constexpr size_t kLine = kManifestHash.size() + kDigits + kManifestHashEnd.size();
  if (!json.starts_with(kManifestHash) || json.size() < kLine) return {};
  const std::string_view expected = json.substr(kManifestHash.size(), kDigits);
  const std::string_view rest = json.substr(kLine);
  const std::string hash = Hash128(std::as_bytes(std::span(rest.data(), rest.size())));
  if (hash == expected) return {};
  return Fail(FUSEC_BAD_ARTIFACT, file, ": was altered: its hash is ", hash, ", expected ",
              expected);
}

}  // namespace fusec::runtime
