// Any bytes as a .safetensors file: tensors that lie inside it, or an error that names the file.
#include "runtime/src/artifact/safetensors.h"

#include "tests/fuzz/libfuzzer/expect.h"

using namespace fusec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto tensors = runtime::ReadSafetensors(file, "weights.safetensors");
  if (!tensors) {
    Expect(tensors.error().message.starts_with("weights.safetensors"), tensors.error().message);
    return 0;
  }
  for (const auto& [name, tensor] : *tensors) {
    Expect(tensor.bytes.empty() || (tensor.bytes.data() >= file.data() && tensor.bytes.data() + tensor.bytes.size() <= file.data() + size),
           name);
  }
  return 0;
}
