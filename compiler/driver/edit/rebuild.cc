#include "compiler/driver/edit/rebuild.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "compiler/driver/build/build_targets.h"
#include "compiler/driver/edit/build_edits.h"
#include "compiler/driver/edit/check_edits.h"
#include "compiler/driver/edit/working_copy.h"
#include "compiler/package/artifact_folder.h"
#include "compiler/package/weights_file.h"
#include "compiler/support/child_process.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/read_file.h"
#include "compiler/support/terminal.h"
#include "runtime/src/cuda/cuda_pieces.h"

namespace fusec {

using Json = nlohmann::ordered_json;

namespace {

// Exit codes of the process that runs a check, besides those of errors.
constexpr int kPassed = 0, kFailed = 1, kNoDevice = 100;

// With --json, the file with the results, in the folder in which a device is checked.
constexpr const char* kReport = "/report.json";

// Whether the edited kernels pass. Prints tables, or writes kReport.
Result<bool> CheckAndTime(const std::string& folder, const std::string& scratch,
                          const std::string& original, const EditChecks& checks, bool as_json) {
  FUSEC_ASSIGN(EditReport report, CheckEdits(folder, scratch, checks));
  if (!as_json)
    std::printf("every edited kernel alone against its unfused ops in double, on %s:\n\n%s",
                report.device.c_str(), JudgementTable(report.judgements).c_str());
  if (report.Passes()) {
    FUSEC_ASSIGN(report.times, TimeEdits(folder, original, checks));
  }
  if (as_json)
    FUSEC_TRY(WriteFile(scratch + kReport, EditReportJson(report).dump()));
  else if (!report.times.empty())
    std::printf("\n%s", EditTimesTable(report.times).c_str());
  return report.Passes();
}

// Runs a check in a child process and returns the child's exit code. The parent process must not
// have used the GPU's driver.
int ExitCodeOfCheck(const std::string& folder, const std::string& scratch,
                    const std::string& original, const EditChecks& checks, bool as_json) {
  if (checks.device != "cpu" && !runtime::GpuArchitecture()) return kNoDevice;
  const Result<bool> passed = CheckAndTime(folder, scratch, original, checks, as_json);
  if (passed) return *passed ? kPassed : kFailed;
  PrintError(passed.error().message);
  return static_cast<int>(passed.error().kind);
}

std::vector<std::string> EditedTargets(const EditedFiles& edited) {
  std::vector<std::string> names;
  for (const auto& [name, target] : edited.manifest["targets"].items()) {
    const auto& steps = target["steps"];
    if (std::any_of(steps.begin(), steps.end(),
                    [](const auto& step) { return step.contains("edited"); }))
      names.push_back(name);
  }
  return names;
}

// The kernels whose texts were edited.
std::vector<std::string> KernelsOf(ArrayRef<Edit> edits) {
  std::vector<std::string> names;
  for (const Edit& edit : edits) {
    for (const std::string& name : edit.functions) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

// The names of the kernels, or only their number if there are many.
std::string KernelsText(ArrayRef<std::string> names) {
  constexpr size_t kMost = 4;
  if (names.size() > kMost) return Plural(static_cast<int64_t>(names.size()), "kernel");
  return Join(names, ", ");
}

// The document that --json prints. `result` says what was done to the artifact: "unchanged",
// "rebuilt", "left" or "restored".
struct Outcome {
  const char* result = "unchanged";
  std::vector<std::string> kernels;      // kernels whose texts were edited
  Json checks = Json::array();           // EditReportJson of every device
  std::vector<std::string> not_checked;  // targets that no device of this machine runs
  bool pass = true;

  void Print() const {
    const Json json = {{"result", result},
                       {"pass", pass},
                       {"kernels", kernels},
                       {"checks", checks},
                       {"not_checked", not_checked}};
    std::printf("%s\n", json.dump(1).c_str());
  }
};

class Rebuilder {
 public:
  Rebuilder(const RebuildFlags& flags, const EditableArtifact& artifact, ArrayRef<Edit> edits)
      : flags_(flags), artifact_(artifact), edits_(edits) {
    outcome_.kernels = KernelsOf(edits);
  }

  Result<int> Run() {
    FUSEC_ASSIGN(edited_, BuildEdits(artifact_, edits_));
    for (const std::string& warning : edited_.warnings) PrintWarning(warning);
    FUSEC_ASSIGN(const bool replaced,
                 ReplaceFolder(flags_.artifact, [&](const std::string& folder) -> Result<bool> {
                   FUSEC_TRY(WriteEdited(artifact_, edited_, folder));
                   // Created by this process, which removes it even if a check crashes.
                   const TemporaryFolder scratch(folder + ".check");
                   FUSEC_TRY(WriteOriginal(artifact_, scratch.path() + "/original"));
                   FUSEC_TRY(CheckAll(folder, scratch.path()));
                   if (code_ != kPassed && !flags_.keep_wrong) return false;
                   FUSEC_TRY(WriteEditedManifest(artifact_, edited_, folder));
                   return true;
                 }));
    outcome_.result = replaced ? "rebuilt" : "left";
    outcome_.pass = code_ == kPassed;
    if (flags_.json) outcome_.Print();
    if (!replaced) {
      PrintNote(flags_.artifact + " is left as it was (--keep-wrong takes the edits anyway)");
    } else {
      PrintNote("rebuilt " + flags_.artifact + " with " + KernelsText(outcome_.kernels) +
                " edited; --restore puts the original back");
    }
    return code_;
  }

 private:
  // Runs one check for the CPU and one for a GPU. GPU targets share a check, because the program
  // chooses the target that fits the device.
  Result<void> CheckAll(const std::string& folder, const std::string& scratch) {
    bool gpu_seen = false;
    for (const std::string& target : EditedTargets(edited_)) {
      const bool is_cpu = KindOf(target) == TargetKind::kCpu;
      if (!is_cpu && std::exchange(gpu_seen, true)) continue;
      if (!flags_.device.empty() && (flags_.device == "cpu") != is_cpu) continue;
      const std::string gpu = flags_.device.empty() ? "cuda" : flags_.device;
      FUSEC_TRY(Check(folder, scratch, is_cpu ? "cpu" : gpu));
    }
    std::vector<std::string>& unchecked = outcome_.not_checked;
    for (const auto& [name, target] : edited_.manifest["targets"].items()) {
      const auto& steps = target["steps"];
      if (std::any_of(steps.begin(), steps.end(), [](const auto& step) {
            return step.contains("edited") && step["edited"]["check"] == "not run";
          }))
        unchecked.push_back(name);
    }
    if (unchecked.empty()) return {};
    PrintWarning("the edited kernels for " + Join(unchecked, " and ") +
                 " were compiled but not checked: " +
                 (flags_.device.empty() ? "no device of this machine runs them; fusec rebuild "
                                          "checks them on a machine that has one"
                                        : "--device " + flags_.device + " does not run them"));
    return {};
  }

  Result<void> Check(const std::string& folder, const std::string& scratch,
                     const std::string& device) {
    const std::string own = scratch + "/" + device;
    std::error_code error;
    std::filesystem::create_directory(own, error);
    const int code = RunInCopy([&] {
      return ExitCodeOfCheck(folder, own, scratch + "/original",
                             {device, flags_.dims, flags_.random_flags}, flags_.json);
    });
    if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
    if (code == kNoDevice) return {};
    if (code < 0) {
      PrintError(std::string("the check was ended by a signal: ") + strsignal(-code) +
                 (code == -SIGKILL ? "; memory may have run out (--dim gives smaller sizes)"
                                   : "; an edited kernel may access memory out of bounds"));
    }
    const auto target = ReadWholeFile(own + kCheckedTarget, ErrorKind::kArtifact);
    if (target) MarkChecked(*target, code == kPassed ? "passed" : "failed", edited_);
    if (const auto report = ReadWholeFile(own + kReport, ErrorKind::kArtifact))
      outcome_.checks.push_back(Json::parse(*report));
    // A check that crashes counts as failed.
    if (code_ == kPassed) code_ = code < 0 ? kFailed : code;
    return {};
  }

  const RebuildFlags& flags_;
  const EditableArtifact& artifact_;
  ArrayRef<Edit> edits_;
  EditedFiles edited_;
  Outcome outcome_;
  int code_ = kPassed;
};

Result<int> Restore(const EditableArtifact& artifact, bool as_json) {
  FUSEC_TRY(ReplaceFolder(artifact.path, [&](const std::string& folder) -> Result<bool> {
    FUSEC_TRY(WriteOriginal(artifact, folder));
    return true;
  }));
  if (as_json) Outcome{"restored"}.Print();
  PrintNote("restored " + artifact.path + " as it was compiled");
  return 0;
}

}  // namespace

Result<int> RebuildArtifact(const RebuildFlags& flags) {
  FUSEC_ASSIGN(const EditableArtifact artifact, ReadEditable(flags.artifact));
  std::string folder = flags.edits.empty() ? WorkingCopyOf(flags.artifact) : flags.edits;
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    if (!flags.edits.empty())
      return Fail(ErrorKind::kUsage, folder + " is not a folder, expected one with edited kernels");
    folder.clear();
  }
  const bool is_altered = std::any_of(artifact.sources.begin(), artifact.sources.end(),
                                      [](const KernelSource& source) { return source.altered; });
  if (flags.restore && (artifact.is_edited() || is_altered)) return Restore(artifact, flags.json);
  if (flags.restore) {
    if (flags.json) Outcome{"unchanged"}.Print();
    PrintNote("no kernel of " + flags.artifact + " is edited");
    return 0;
  }
  FUSEC_ASSIGN(const auto edits, FindEdits(artifact, folder));
  if (!edits.empty()) return Rebuilder(flags, artifact, edits).Run();
  if (artifact.is_edited() || is_altered) return Restore(artifact, flags.json);
  if (flags.json) Outcome{"unchanged"}.Print();
  PrintNote("no kernel of " + flags.artifact + " differs from its original" +
            (folder.empty() ? "; fusec edit makes copies to edit" : ", and none in " + folder));
  return 0;
}

}  // namespace fusec
