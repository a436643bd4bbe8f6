#include <fmt/format.h>

#include "compiler/driver/cli/cli.h"
#include "compiler/driver/refit/refit.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/terminal.h"

namespace fusec {

Result<int> RunRefit(const RefitFlags& flags) {
  CatchInterrupts();
  const std::string output = flags.output.empty() ? flags.artifact : flags.output;
  Result<RefitReport> report = Fail(ErrorKind::kUsage, "");
  {
    ProgressLine progress;
    const auto update = [&](const std::string& stage, double fraction) {
      progress.Update(stage, fraction);
    };
    report = RefitArtifact({flags.artifact, output, flags.weights, flags.model, flags.exported_with,
                            flags.freezes, update});
  }
  FUSEC_TRY(report);
  for (const std::string& warning : report->warnings) PrintWarning(warning);
  PrintNote(
      fmt::format("wrote {} in {:.2f} s with the weights of {}: {} of {} and {} of {} bytes "
                  "changed, and no kernel",
                  output, report->seconds, flags.weights, report->changed_tensors,
                  Plural(report->tensors, "tensor"), report->changed_bytes, report->bytes));
  return 0;
}

}  // namespace fusec
