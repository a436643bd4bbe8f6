#include "runtime/src/artifact/step_buffers.h"

#include <algorithm>

namespace fusec::runtime {
namespace {

using Buffers = std::vector<int>;

bool Has(const Buffers& list, int buffer) {
  return std::find(list.begin(), list.end(), buffer) != list.end();
}

// The buffers that a step passes on, in the order of its arguments.
struct Passed {
  Buffers read, written;
};

Passed PassedByKernel(const Step& step) {
  Passed passed;
  for (const KernelArgument& argument : step.kernel.arguments) {
    if (argument.kind == KernelArgument::Kind::kBuffer)
      (Has(step.outputs, argument.buffer) ? passed.written : passed.read)
          .push_back(argument.buffer);
    passed.read.insert(passed.read.end(), argument.buffers.begin(), argument.buffers.end());
  }
  return passed;
}

Passed PassedByMatmul(const Matmul& matmul) {
  Passed passed{{matmul.a.buffer, matmul.b.buffer}, {matmul.d.buffer}};
  for (const int added : {matmul.bias, matmul.addend}) {
    if (added >= 0) passed.read.push_back(added);
  }
  return passed;
}

std::string ListText(const Buffers& buffers) {
  constexpr size_t kMostListed = 8;
  std::string text;
  for (size_t i = 0; i < std::min(buffers.size(), kMostListed); ++i)
    text += Text(i == 0 ? "" : ", ", buffers[i]);
  return Text("[", text, buffers.size() > kMostListed ? ", ...]" : "]");
}

}  // namespace

Status CheckStepBuffers(const Manifest& manifest, const Step& step, const std::string& where) {
  for (const int buffer : step.outputs) {
    const BufferKind kind = manifest.buffers[buffer].kind;
    if (kind == BufferKind::kInput || kind == BufferKind::kConstant) {
      return Fail(FUSEC_BAD_ARTIFACT, where, ".outputs has buffer ", buffer,
                  ", which cannot be written");
    }
  }
  // CreateShardedDevice compares such a step with the signature of its part.
  if (step.kind == Step::Kind::kArtifact) return {};
  const bool is_kernel = step.kind == Step::Kind::kKernel;
  const Passed passed = is_kernel ? PassedByKernel(step) : PassedByMatmul(step.matmul);
  for (const int buffer : passed.read) {
    if (!Has(step.outputs, buffer)) continue;
    return Fail(FUSEC_BAD_ARTIFACT, where, " reads buffer ", buffer, ", but writes it");
  }
  for (const auto& [key, listed, used] : {std::tuple(".inputs", &step.inputs, &passed.read),
                                          std::tuple(".outputs", &step.outputs, &passed.written)}) {
    if (*listed == *used) continue;
    return Fail(FUSEC_BAD_ARTIFACT, where, key, " is ", ListText(*listed),
                ", but the step passes buffers ", ListText(*used));
  }
  return {};
}

}  // namespace fusec::runtime
