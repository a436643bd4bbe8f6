#include "runtime/src/artifact/step_order.h"

#include "runtime/src/artifact/step_sizes.h"

namespace fusec::runtime {
namespace {

// Tracks which buffers hold values while steps run one after another.
class WrittenBuffers {
 public:
  WrittenBuffers(const Manifest& manifest, std::string where)
      : manifest_(manifest), where_(std::move(where)), written_(manifest.buffers.size()) {
    for (size_t i = 0; i < written_.size(); ++i) {
      const BufferKind kind = manifest.buffers[i].kind;
      written_[i] = kind == BufferKind::kInput || kind == BufferKind::kConstant;
    }
  }

  Status Run(const Step& step) {
    for (const int buffer : step.inputs) {
      if (written_[buffer]) continue;
      return Fail(FUSEC_BAD_ARTIFACT, where_, ": \"", step.name, "\" reads buffer \"",
                  manifest_.buffers[buffer].name, "\", which no step before it writes");
    }
    for (const int buffer : step.outputs) written_[buffer] = true;
    return {};
  }

  Status End() const {
    for (const TensorSignature& output : manifest_.outputs) {
      if (written_[output.buffer]) continue;
      return Fail(FUSEC_BAD_ARTIFACT, where_, ": none writes output \"", output.name, "\"");
    }
    return {};
  }

 private:
  const Manifest& manifest_;
  std::string where_;
  std::vector<bool> written_;
};

// Whether two steps differ only in their conditions. Such steps may both run: tuning launches a
// kernel several times in a run.
bool DoTheSame(const Step& a, Step b) {
  b.when = a.when;
  return a == b;
}

}  // namespace

Status CheckStepOrder(const Manifest& manifest, const std::vector<Step>& steps,
                      const std::string& where) {
  WrittenBuffers written(manifest, where);
  for (const Step& step : steps) FUSEC_RT_TRY(written.Run(step));
  return written.End();
}

Status CheckRunOrder(const Manifest& manifest, const std::vector<Step>& steps,
                     std::span<const int64_t> symbols) {
  WrittenBuffers written(manifest, "the steps for these dims");
  const Step* last = nullptr;  // the last step that runs
  for (const Step& step : steps) {
    FUSEC_RT_ASSIGN(const bool runs, Runs(step, symbols));
    if (!runs) continue;
    if (last && last->when && step.when && last->outputs == step.outputs &&
        !DoTheSame(*last, step)) {
      return Fail(FUSEC_BAD_ARTIFACT, "steps \"", last->name, "\" and \"", step.name,
                  "\" make the same values, but both run for these dims");
    }
    FUSEC_RT_TRY(written.Run(step));
    last = &step;
  }
  return written.End();
}

}  // namespace fusec::runtime
