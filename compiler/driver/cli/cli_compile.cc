#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "compiler/driver/artifact/dim_flags.h"
#include "compiler/driver/build/compile.h"
#include "compiler/driver/build/model_flags.h"
#include "compiler/driver/cli/cli.h"
#include "compiler/support/adt.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/terminal.h"
#include "runtime/src/cuda/cuda_pieces.h"

namespace fusec {

Result<CompileOptions> CompileOptionsOf(const CompileFlags& flags) {
  CompileOptions options;
  options.model_path = flags.model;
  options.output_path = flags.output;
  if (!flags.targets.empty()) options.targets = flags.targets;
  FUSEC_ASSIGN(options.dim_ranges, ParseDimRanges(flags.dims));
  FUSEC_TRY(ApplyModelFlags(flags.model_flags, options));
  options.cpu_level = flags.cpu_level;
  options.dump_ir_directory = flags.dump_ir;
  options.dump_kernels_directory = flags.dump_kernels;
  for (const std::string& folder : {flags.dump_ir, flags.dump_kernels}) {
    std::error_code error;
    if (!folder.empty()) std::filesystem::create_directories(folder, error);
    if (error) return Fail(ErrorKind::kUsage, "cannot create " + folder + ": " + error.message());
  }
  return options;
}

namespace {

std::string Seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

void PrintTimings(ArrayRef<PassTiming> timings) {
  std::vector<std::vector<std::string>> rows = {{"pass", "ms", ""}};
  double sum = 0;
  for (const PassTiming& timing : timings) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", timing.milliseconds);
    rows.push_back({timing.name, text, timing.changed ? "changed" : ""});
    sum += timing.milliseconds;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", sum);
  rows.push_back({"sum", text, ""});
  std::fputs(FormatTable(rows, "lrl").c_str(), stderr);
}

void PrintSummary(const CompileFlags& flags, const CompileReport& report) {
  PrintNote("built " + flags.output + " for " + Join(report.targets, " and ") + " in " +
            Seconds(report.seconds));
  std::vector<std::string> after;
  for (const std::string& target : report.targets) {
    after.push_back(std::to_string(report.launches.at(target)) + " on " + target);
  }
  PrintNote(Plural(report.launches_before, "launch") + " before fusion, " + Join(after, ", "));
  PrintNote("next: fusec run " + flags.output + " --random --output out, or fusec explain " +
            flags.output);
}

// The device on which --tune measures: a GPU if the model is compiled for one. Fails if it is and
// this machine has none.
Result<std::string> TunedDevice(ArrayRef<std::string> targets) {
  const auto is_gpu = [](const std::string& target) { return target != "cpu"; };
  if (std::none_of(targets.begin(), targets.end(), is_gpu)) return "cpu";
  if (runtime::GpuArchitecture()) return "cuda";
  return Fail(ErrorKind::kToolchain,
              "--tune needs a GPU for targets other than cpu, and there is " +
                  runtime::CudaPieces().front().second);
}

}  // namespace

Result<int> RunCompile(const CompileFlags& flags) {
  FUSEC_ASSIGN(CompileOptions options, CompileOptionsOf(flags));
  std::string device;
  if (flags.tune) {
    FUSEC_ASSIGN(device, TunedDevice(options.targets));
  }
  CatchInterrupts();
  Result<CompileReport> report = Fail(ErrorKind::kUsage, "");
  {
    ProgressLine progress;
    options.progress = [&](const std::string& stage, double fraction) {
      progress.Update(stage, fraction);
    };
    report = CompileModel(options);
  }
  FUSEC_TRY(report);
  for (const std::string& warning : report->warnings) PrintWarning(warning);
  if (flags.time_passes) PrintTimings(report->pass_timings);
  PrintSummary(flags, *report);
  if (flags.tune) return RunTune({.artifact = flags.output, .device = device});
  return 0;
}

}  // namespace fusec
