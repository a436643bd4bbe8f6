#include <unistd.h>

#include <cstdio>

#include "compiler/driver/cli/cli.h"
#include "compiler/driver/tune/tune.h"
#include "compiler/driver/tune/tuning_table.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

std::string Seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

void PrintSummary(const TuneFlags& flags, const TuneReport& report) {
  PrintNote("tuned " + flags.artifact + " for " + report.tuning.device);
  PrintNote(Plural(report.measured, "measurement") + " and " + std::to_string(report.remembered) +
            " remembered in " + Seconds(report.seconds) + ", " + Plural(report.changed, "kernel") +
            " of " + std::to_string(report.tuning.regions.size()) + " replaced by faster ones");
  if (report.left_out > 0) {
    PrintWarning(Plural(report.left_out, "measurement") +
                 " left out because time ran out (--time-limit); their kernels stay as planned");
  }
}

}  // namespace

Result<int> RunTune(const TuneFlags& flags) {
  CatchInterrupts();
  TuneOptions options{flags.artifact, flags.device, flags.dims, flags.time_limit_s, nullptr};
  Result<TuneReport> report = Fail(ErrorKind::kUsage, "");
  {
    ProgressLine progress;
    std::string said;
    options.progress = [&](const std::string& stage, double fraction) {
      progress.Update(stage, fraction);
      // Without a terminal, a line cannot be redrawn, so each stage is printed on its own line.
      if (!isatty(STDERR_FILENO) && stage != said) PrintNote(said = stage);
    };
    report = TuneArtifact(options);
  }
  FUSEC_TRY(report);
  for (const std::string& warning : report->warnings) PrintWarning(warning);
  if (flags.table) std::fputs(SweepText(report->tuning).c_str(), stdout);
  PrintSummary(flags, *report);
  return 0;
}

}  // namespace fusec
