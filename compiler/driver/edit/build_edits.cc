#include "compiler/driver/edit/build_edits.h"

#include <algorithm>
#include <filesystem>
#include <regex>

#include "compiler/driver/build/build_targets.h"
#include "compiler/driver/build/host_compiler.h"
#include "compiler/emit/emit_launches.h"
#include "compiler/package/artifact_folder.h"
#include "compiler/support/read_file.h"
#include "runtime/src/artifact/launch_text.h"
#include "runtime/src/artifact/manifest.h"
#include "runtime/src/cuda/nvrtc.h"

namespace fusec {

namespace {

using Json = EditableArtifact::Json;

std::string FunctionOf(const Json& step) { return step.value("function", step.at("name")); }

bool Launches(const Json& step, const Edit& edit) {
  return step.at("kind") == "kernel" && step.at("source") == edit.source->path &&
         std::count(edit.functions.begin(), edit.functions.end(), FunctionOf(step)) > 0;
}

// Sets the functions and launches that differ between the text and the original. An error says why
// a kernel cannot be launched as its header comment states.
Result<void> Compare(ArrayRef<std::string> symbols, Edit& edit) {
  const KernelParts before = PartsOf(CopyToEdit(edit.source->original)), now = PartsOf(edit.text);
  for (const KernelPart& original : before.kernels) {
    const KernelPart* part = now.Find(original.function);
    if (part == nullptr) {
      return Fail(ErrorKind::kInput, edit.file +
                                         " has no line \"// kernel  : " + original.function +
                                         " \", where that kernel begins; the artifact launches it");
    }
    if (part->text == original.text && now.preamble == before.preamble) continue;
    edit.functions.push_back(part->function);
    FUSEC_ASSIGN(StatedLaunch launch, ParseLaunch(*part, edit.file));
    FUSEC_TRY(CheckBlockSize(*part, launch.block_size, edit.file));
    const auto blocks = runtime::DimExpression::Parse(
        launch.blocks.ToString(), std::vector<std::string>(symbols.begin(), symbols.end()));
    if (!blocks) {
      return Fail(ErrorKind::kInput, edit.file + ":" + std::to_string(part->launch_line) + ": " +
                                         blocks.error().message);
    }
    if (part->launch != original.launch) edit.launches[part->function] = std::move(launch);
  }
  return {};
}

// The texts of kernels by path, for each target for which they have been generated again.
using TextsOfTargets = std::map<std::string, std::map<std::string, std::string>>;

// Whether the edited file is also the text for `target`. All GPU targets share one file for a
// kernel, which holds the text of the last target; the texts may differ.
Result<bool> HasText(const EditableArtifact& artifact, const std::string& target, const Edit& edit,
                     TextsOfTargets& texts) {
  std::string last;
  for (const auto& [name, json] : artifact.original["targets"].items()) {
    const Json& steps = json["steps"];
    if (std::any_of(steps.begin(), steps.end(),
                    [&](const Json& step) { return Launches(step, edit); }))
      last = name;
  }
  if (target == last) return true;
  if (texts.count(target) == 0) {
    FUSEC_ASSIGN(texts[target], EmitAgain(artifact.path, target));
  }
  return texts[target][edit.source->path] == edit.source->original;
}

// The error of a failed compilation: kInput with the compiler's log if the log names a line of the
// edited file, else kToolchain.
tl::unexpected<Error> CompileError(const Edit& edit, const std::string& target,
                                   const std::string& message) {
  // NVRTC writes "file(12): error", and others "file:12:3: error".
  const std::string quoted =
      std::regex_replace(edit.file, std::regex(R"([.^$|()\[\]{}*+?\\])"), R"(\$&)");
  const std::string log =
      std::regex_replace(message, std::regex(quoted + R"(\(([0-9]+)\))"), edit.file + ":$1");
  const bool names_line = std::regex_search(log, std::regex(quoted + ":[0-9]+"));
  if (!names_line) return Fail(ErrorKind::kToolchain, message);
  const size_t end = log.find('\n');  // end of the first line, which is replaced by this one
  return Fail(ErrorKind::kInput,
              edit.file + " cannot be compiled for " + target +
                  (end == std::string::npos ? ": " + log : ":" + log.substr(end)));
}

Result<void> BuildGpu(const Edit& edit, const std::string& target, Json& json, EditedFiles& made) {
  const auto cubin = runtime::CompileCached(edit.file, edit.text, target);
  if (!cubin) return CompileError(edit, target, cubin.error().message);
  const std::string key = "edited_" + edit.functions.front();
  const std::string path = "cubin/" + target + "_" + key + ".cubin";
  json["files"][key] = path;
  made.files[path] = *cubin;
  for (Json& step : json["steps"]) {
    if (Launches(step, edit)) step["module"] = key;
  }
  return {};
}

// The CPU library contains the launches of its kernels, which are generated from the new manifest.
Result<void> BuildCpu(const Edit& edit, const std::string& target, const Json& json,
                      EditedFiles& made) {
  const bool batch_invariant = made.manifest.value("batch_invariant", false);
  const auto manifest = runtime::ParseManifest(made.manifest.dump(), edit.source->path);
  // A manifest with a bad launch is the fault of an edit.
  if (!manifest) return Fail(ErrorKind::kInput, manifest.error().message);
  const std::string launches =
      EmitLaunches(runtime::LaunchTexts(*manifest, manifest->targets.at(target)));
  made.files["cpu/launches.cc"] = launches;
  for (const auto& [level, path] : json["files"].items()) {
    const std::string name = std::regex_replace(edit.file, std::regex(R"(["\\])"), R"(\$&)");
    const std::string text = "#line 1 \"" + name + "\"\n" + edit.text + "\n" + launches;
    const auto library =
        CompileHostLibrary(text, level, BuildOptions().cpu_optimization, batch_invariant);
    if (!library) return CompileError(edit, "the CPU (" + level + ")", library.error().message);
    made.files[path] = *library;
  }
  return {};
}

void MarkSteps(const Edit& edit, Json& json) {
  for (Json& step : json["steps"]) {
    if (!Launches(step, edit)) continue;
    step["edited"] = {{"original", HashOf(edit.source->original)}, {"check", "not run"}};
    // Properties that the compiler has proven for the original text may not hold for the edited
    // one.
    step["outputs_in_device_memory"] = true;
    if (step.value("dependent_launch", false))
      step["dependent_launch"] = edit.text.find("griddepcontrol.wait") != std::string::npos;
    const auto launch = edit.launches.find(FunctionOf(step));
    if (launch == edit.launches.end()) continue;
    step["launch"] = launch->second.words;
    step["blocks"] = launch->second.blocks.ToString();
    step["block_size"] = launch->second.block_size;
    if (launch->second.shared_bytes) step["shared_bytes"] = *launch->second.shared_bytes;
  }
}

}  // namespace

Result<std::vector<Edit>> FindEdits(const EditableArtifact& artifact, const std::string& folder) {
  std::vector<std::string> symbols;
  for (const Json& symbol : artifact.original.at("symbols")) symbols.push_back(symbol.at("name"));
  std::vector<Edit> edits;
  for (const KernelSource& source : artifact.sources) {
    Edit edit{&source, source.current, artifact.path + "/" + source.path, {}, {}};
    const std::string copy = folder + "/" + source.file_name();
    std::error_code error;
    if (!folder.empty() && std::filesystem::exists(copy, error)) {
      FUSEC_ASSIGN(std::string text, ReadWholeFile(copy, ErrorKind::kInput));
      const bool is_edited = CopyToEdit(text) != CopyToEdit(source.original);
      if (source.altered && is_edited && CopyToEdit(text) != CopyToEdit(source.current)) {
        return Fail(ErrorKind::kUsage, edit.file + " and " + copy +
                                           " were both edited, and differ; remove one of them, or "
                                           "make them equal");
      }
      if (!source.altered || is_edited) {
        edit.text = std::move(text);
        edit.file = copy;
      }
    }
    edit.text = CopyToEdit(edit.text);
    if (edit.text == CopyToEdit(source.original)) continue;
    FUSEC_TRY(Compare(symbols, edit));
    if (!edit.functions.empty()) edits.push_back(std::move(edit));
  }
  return edits;
}

Result<EditedFiles> BuildEdits(const EditableArtifact& artifact, ArrayRef<Edit> edits) {
  TextsOfTargets texts;
  EditedFiles made;
  made.manifest = artifact.original;
  made.manifest.erase("hash");
  for (const Edit& edit : edits) {
    made.files[edit.source->path] = edit.text;
    for (auto& [name, target] : made.manifest["targets"].items()) {
      const Json& steps = target["steps"];
      const bool launches = std::any_of(steps.begin(), steps.end(),
                                        [&](const Json& step) { return Launches(step, edit); });
      if (!launches) continue;
      FUSEC_ASSIGN(const bool has_text, HasText(artifact, name, edit, texts));
      if (!has_text) {
        made.warnings.push_back(edit.file + " is not the text that was compiled for " + name +
                                ", so " + name + " keeps its kernel");
        continue;
      }
      MarkSteps(edit, target);
      if (edit.source->is_cpu()) {
        FUSEC_TRY(BuildCpu(edit, name, target, made));
      } else {
        FUSEC_TRY(BuildGpu(edit, name, target, made));
      }
    }
  }
  return made;
}

void MarkChecked(const std::string& target, const std::string& check, EditedFiles& edited) {
  for (Json& step : edited.manifest["targets"][target]["steps"]) {
    if (step.contains("edited")) step["edited"]["check"] = check;
  }
}

Result<void> WriteEdited(const EditableArtifact& artifact, const EditedFiles& edited,
                         const std::string& folder) {
  FUSEC_TRY(WriteOriginal(artifact, folder));
  for (const auto& [path, bytes] : edited.files) {
    const std::string kept = std::string(kOriginals) + path;
    if (artifact.original["files"].contains(path)) {
      FUSEC_ASSIGN(const std::string original,
                   ReadWholeFile(folder + "/" + path, ErrorKind::kArtifact));
      FUSEC_TRY(WriteFileIn(folder, kept, original));
    }
    FUSEC_TRY(WriteFileIn(folder, path, bytes));
  }
  FUSEC_TRY(
      WriteFileIn(folder, std::string(kOriginals) + "manifest.json", artifact.original_manifest));
  return WriteEditedManifest(artifact, edited, folder);
}

Result<void> WriteEditedManifest(const EditableArtifact& artifact, const EditedFiles& edited,
                                 const std::string& folder) {
  std::map<std::string, std::string> hashes;
  for (const auto& [path, hash] : artifact.original["files"].items()) hashes[path] = hash;
  for (const auto& [path, bytes] : edited.files) {
    if (const auto original = hashes.find(path); original != hashes.end())
      hashes[kOriginals + path] = original->second;
    hashes[path] = HashOf(bytes);
  }
  hashes[std::string(kOriginals) + "manifest.json"] = HashOf(artifact.original_manifest);
  Json manifest = edited.manifest;
  manifest["files"] = hashes;
  const std::string text = ManifestText(manifest), name = artifact.path + "/manifest.json";
  // A manifest with a bad launch is the fault of an edit.
  if (const auto parsed = runtime::ParseManifest(text, name); !parsed)
    return Fail(ErrorKind::kInput, parsed.error().message);
  return WriteFileIn(folder, "manifest.json", text);
}

}  // namespace fusec
