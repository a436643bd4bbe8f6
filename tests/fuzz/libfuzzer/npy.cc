// Any bytes as a .npy file: an array that is the same when it is written and read again, or an
// error that names the file.
#include <cstring>

#include "compiler/driver/artifact/tensor_files.h"
#include "tests/fuzz/libfuzzer/expect.h"

using namespace fusec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto array = ParseNpy({reinterpret_cast<const char*>(data), size}, "x.npy");
  if (!array) {
    Expect(array.error().message.starts_with("x.npy: "), array.error().message);
    return 0;
  }
  const auto again = ParseNpy(NpyBytes(*array), "written.npy");
  Expect(again.has_value(), again ? "" : again.error().message);
  Expect(again->dtype() == array->dtype() && again->dims() == array->dims(),
         "dtype and dims are the same");
  const size_t bytes = array->byte_count();
  Expect(again->byte_count() == bytes &&
             (bytes == 0 || std::memcmp(again->bytes(), array->bytes(), bytes) == 0),
         "bytes are the same");
  return 0;
}
