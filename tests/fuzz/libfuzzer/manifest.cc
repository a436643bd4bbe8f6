// Any text as manifest.json: a manifest, or an error that names the file.
#include "runtime/src/artifact/manifest.h"

#include "tests/fuzz/libfuzzer/expect.h"

using namespace fusec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto manifest = runtime::ParseManifest({reinterpret_cast<const char*>(data), size}, "manifest.json");
  if (!manifest) Expect(manifest.error().message.starts_with("manifest.json"), manifest.error().message);
  return 0;
}
