// Any bytes as a .npz file: arrays, or an error that names the file.
#include "compiler/driver/artifact/tensor_files.h"
#include "tests/fuzz/libfuzzer/memory_file.h"

using namespace fusec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static MemoryFile file;
  file.Set(data, size);
  const auto arrays = ReadNpz(file.path());
  if (!arrays)
    Expect(arrays.error().message.starts_with(file.path() + ": "), arrays.error().message);
  return 0;
}
