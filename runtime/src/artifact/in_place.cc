#include "runtime/src/artifact/in_place.h"

#include <algorithm>

namespace fusec::runtime {

Status CheckInPlace(const Manifest& manifest, const std::string& where) {
  const auto count = static_cast<int>(manifest.buffers.size());
  for (int i = 0; i < count; ++i) {
    const Buffer& buffer = manifest.buffers[i];
    if (buffer.in_place_of < 0) continue;
    const Buffer* input =
        buffer.in_place_of < count ? &manifest.buffers[buffer.in_place_of] : nullptr;
    if (input && input->kind == BufferKind::kInput && input->dtype == buffer.dtype &&
        input->elements == buffer.elements)
      continue;
    return Fail(FUSEC_BAD_ARTIFACT, where, "buffers[", i, "].input is ", buffer.in_place_of,
                ", expected an input of the same dtype and size");
  }
  return {};
}

int Manifest::InputInPlaceOf(size_t output) const {
  const int buffer = buffers[outputs[output].buffer].in_place_of;
  const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const TensorSignature& one) {
    return one.buffer == buffer;
  });
  return input == inputs.end() ? -1 : static_cast<int>(input - inputs.begin());
}

}  // namespace fusec::runtime
