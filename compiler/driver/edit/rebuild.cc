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
#include "compiler/support/child_process.h"
#include "compiler/support/interrupt.h"
#include "compiler/support/read_file.h"
#include "compiler/support/terminal.h"
#include "runtime/src/cuda/cuda_pieces.h"

namespace fusec {

namespace {

// Exit codes of the process that checks, besides those of errors.
constexpr int kPassed = 0, kFailed = 1, kNoDevice = 100;

// In a process of its own, before which nothing may have used the GPU's driver.
int CheckAndTime(const std::string& folder, const std::string& scratch, const std::string& original,
                 const EditChecks& checks) {
  if (checks.device != "cpu" && !runtime::GpuArchitecture()) return kNoDevice;
  const Result<bool> passed = CheckEdits(folder, scratch, checks);
  Result<void> timed;
  if (passed && *passed) timed = TimeEdits(folder, original, checks);
  if (passed && timed) return *passed ? kPassed : kFailed;
  const Error& error = passed ? timed.error() : passed.error();
  PrintError(error.message);
  return static_cast<int>(error.kind);
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

// "k00_softmax", or how many where they are many, of the kernels whose texts were edited.
std::string NamesOf(ArrayRef<Edit> edits) {
  constexpr size_t kMost = 4;
  std::vector<std::string> names;
  for (const Edit& edit : edits) {
    for (const std::string& name : edit.functions) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  if (names.size() > kMost) return Plural(static_cast<int64_t>(names.size()), "kernel");
  return Join(names, ", ");
}

class Rebuilder {
 public:
  Rebuilder(const RebuildFlags& flags, const EditableArtifact& artifact, ArrayRef<Edit> edits)
      : flags_(flags), artifact_(artifact), edits_(edits) {}

  Result<int> Run() {
    FUSEC_ASSIGN(edited_, BuildEdits(artifact_, edits_));
    for (const std::string& warning : edited_.warnings) PrintWarning(warning);
    FUSEC_ASSIGN(const bool replaced,
                 ReplaceFolder(flags_.artifact, [&](const std::string& folder) -> Result<bool> {
                   FUSEC_TRY(WriteEdited(artifact_, edited_, folder));
                   // Made here, as a process that checks may crash.
                   const TemporaryFolder scratch(folder + ".check");
                   FUSEC_TRY(WriteOriginal(artifact_, scratch.path() + "/original"));
                   FUSEC_TRY(CheckAll(folder, scratch.path()));
                   if (code_ != kPassed && !flags_.keep_wrong) return false;
                   FUSEC_TRY(WriteEditedManifest(artifact_, edited_, folder));
                   return true;
                 }));
    const std::string names = NamesOf(edits_);
    if (!replaced) {
      PrintNote(flags_.artifact + " is left as it was (--keep-wrong would take the edits)");
    } else {
      PrintNote("rebuilt " + flags_.artifact + " with " + names +
                " edited; --restore takes the original back");
    }
    return code_;
  }

 private:
  // One check for each device. Targets for GPUs share one: the program chooses among them.
  Result<void> CheckAll(const std::string& folder, const std::string& scratch) {
    bool gpu_seen = false;
    for (const std::string& target : EditedTargets(edited_)) {
      const bool is_cpu = KindOf(target) == TargetKind::kCpu;
      if (!is_cpu && std::exchange(gpu_seen, true)) continue;
      if (!flags_.device.empty() && (flags_.device == "cpu") != is_cpu) continue;
      const std::string gpu = flags_.device.empty() ? "cuda" : flags_.device;
      FUSEC_TRY(Check(folder, scratch, is_cpu ? "cpu" : gpu));
    }
    std::vector<std::string> unchecked;
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
                 (flags_.device.empty() ? "no device here runs them, and fusec rebuild checks them "
                                          "where one does"
                                        : "--device " + flags_.device + " does not run them"));
    return {};
  }

  Result<void> Check(const std::string& folder, const std::string& scratch,
                     const std::string& device) {
    const std::string own = scratch + "/" + device;
    std::error_code error;
    std::filesystem::create_directory(own, error);
    const int code = RunInCopy([&] {
      return CheckAndTime(folder, own, scratch + "/original",
                          {device, flags_.dims, flags_.random_flags});
    });
    if (Interrupted()) return Fail(ErrorKind::kUsage, "interrupted");
    if (code == kNoDevice) return {};
    if (code < 0) {
      PrintError(std::string("the check ended by a signal: ") + strsignal(-code) +
                 (code == -SIGKILL ? "; memory may have run out (--dim gives smaller sizes)"
                                   : "; an edited kernel reads or writes where it may not"));
    }
    const auto target = ReadWholeFile(own + kCheckedTarget, ErrorKind::kArtifact);
    if (target) MarkChecked(*target, code == kPassed ? "passed" : "failed", edited_);
    // Whatever ends a check of an edited kernel that the original would pass is a failure of it.
    if (code_ == kPassed) code_ = code < 0 ? kFailed : code;
    return {};
  }

  const RebuildFlags& flags_;
  const EditableArtifact& artifact_;
  ArrayRef<Edit> edits_;
  EditedFiles edited_;
  int code_ = kPassed;
};

Result<int> Restore(const EditableArtifact& artifact) {
  FUSEC_TRY(ReplaceFolder(artifact.path, [&](const std::string& folder) -> Result<bool> {
    FUSEC_TRY(WriteOriginal(artifact, folder));
    return true;
  }));
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
      return Fail(ErrorKind::kUsage, folder + " is no folder, expected one with edited kernels");
    folder.clear();
  }
  const bool is_altered = std::any_of(artifact.sources.begin(), artifact.sources.end(),
                                      [](const KernelSource& source) { return source.altered; });
  if (flags.restore && (artifact.is_edited() || is_altered)) return Restore(artifact);
  if (flags.restore) {
    PrintNote("no kernel of " + flags.artifact + " is edited");
    return 0;
  }
  FUSEC_ASSIGN(const auto edits, FindEdits(artifact, folder));
  if (!edits.empty()) return Rebuilder(flags, artifact, edits).Run();
  if (artifact.is_edited() || is_altered) return Restore(artifact);
  PrintNote("no kernel of " + flags.artifact + " differs from its original" +
            (folder.empty() ? "; fusec edit makes copies to edit" : ", and none in " + folder));
  return 0;
}

}  // namespace fusec
