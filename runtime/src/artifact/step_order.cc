#include "runtime/src/artifact/step_order.h"

namespace fusec::runtime {

Status CheckStepOrder(const Manifest& manifest, const std::vector<Step>& steps,
                      const std::string& where) {
  const std::vector<Buffer>& buffers = manifest.buffers;
  std::vector<bool> written(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    written[i] = buffers[i].kind == BufferKind::kInput || buffers[i].kind == BufferKind::kConstant;
  }
  for (const Step& step : steps) {
    for (const int buffer : step.inputs) {
      if (written[buffer]) continue;
      return Fail(FUSEC_BAD_ARTIFACT, where, ": \"", step.name, "\" reads buffer \"",
                  buffers[buffer].name, "\", which no step before it writes");
    }
    for (const int buffer : step.outputs) written[buffer] = true;
  }
  for (const TensorSignature& output : manifest.outputs) {
    if (written[output.buffer]) continue;
    return Fail(FUSEC_BAD_ARTIFACT, where, ": none writes output \"", output.name, "\"");
  }
  return {};
}

}  // namespace fusec::runtime
