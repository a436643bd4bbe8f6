#include "compiler/driver/edit/editable_artifact.h"

#include <algorithm>
#include <filesystem>

#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/driver/artifact/manifest_json.h"
#include "compiler/driver/build/build_targets.h"
#include "compiler/driver/tune/artifact_source.h"
#include "compiler/package/artifact_folder.h"
#include "compiler/package/weights_file.h"
#include "compiler/support/nearest_name.h"
#include "compiler/support/read_file.h"
#include "compiler/support/terminal.h"

namespace fusec {

namespace {

namespace fs = std::filesystem;
using Json = EditableArtifact::Json;

Result<std::string> ReadChecked(const EditableArtifact& artifact, const std::string& path) {
  const std::string file = artifact.path + "/" + path;
  FUSEC_ASSIGN(std::string bytes, ReadWholeFile(file, ErrorKind::kArtifact));
  const std::string hash = HashOf(bytes), expected = artifact.hashes.at(path);
  if (hash == expected) return bytes;
  return Fail(ErrorKind::kArtifact,
              file + ": was altered: its hash is " + hash + ", expected " + expected);
}

// Calls `visit(step)` for every generated kernel that some target launches.
template <class Visit>
void ForEachKernel(const Json& manifest, const Visit& visit) {
  for (const auto& [name, target] : manifest.at("targets").items()) {
    for (const Json& step : target.at("steps")) {
      if (step.at("kind") == "kernel") visit(step);
    }
  }
}

Result<void> ReadSources(EditableArtifact& artifact) {
  std::map<std::string, std::string> emitted;
  std::vector<std::string> paths;
  ForEachKernel(artifact.original, [&](const Json& step) {
    const std::string path = step.at("source");
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
  });
  for (const std::string& path : paths) {
    KernelSource& source = artifact.sources.emplace_back();
    source.path = path;
    const std::string file = artifact.path + "/" + path;
    FUSEC_ASSIGN(source.current, ReadWholeFile(file, ErrorKind::kArtifact));
    source.altered = HashOf(source.current) != artifact.hashes.at(path);
    if (const auto kept = artifact.kept.find(path); kept != artifact.kept.end()) {
      source.original = kept->second;
      continue;
    }
    source.original = source.current;
    if (!source.altered) continue;
    if (emitted.empty()) {
      FUSEC_ASSIGN(emitted, EmitAgain(artifact.path, ""));
    }
    source.original = emitted[path];
    if (HashOf(source.original) == artifact.hashes.at(path)) continue;
    return Fail(ErrorKind::kArtifact,
                file +
                    ": was altered, and its original cannot be generated again, because another "
                    "version of fusec compiled it; compile the model again");
  }
  return {};
}

}  // namespace

Result<EditableArtifact> ReadEditable(const std::string& path) {
  FUSEC_TRY(CheckArtifact(path));
  FUSEC_TRY(CheckNotSharded(path, "edit, rebuild or refit"));
  EditableArtifact artifact;
  artifact.path = path;
  const std::string file = path + "/manifest.json";
  FUSEC_ASSIGN(artifact.original_manifest, ReadWholeFile(file, ErrorKind::kArtifact));
  FUSEC_RUNTIME_ASSIGN(const auto manifest,
                       runtime::ParseManifest(artifact.original_manifest, file));
  artifact.hashes = manifest.hashes;
  try {
    const std::string kept_manifest = std::string(kOriginals) + "manifest.json";
    if (artifact.hashes.count(kept_manifest) != 0) {
      FUSEC_ASSIGN(artifact.original_manifest, ReadChecked(artifact, kept_manifest));
    }
    artifact.original = Json::parse(artifact.original_manifest);
    for (const auto& [name, hash] : artifact.hashes) {
      if (!name.starts_with(kOriginals) || name == kept_manifest) continue;
      const std::string first = name.substr(std::string_view(kOriginals).size());
      FUSEC_ASSIGN(artifact.kept[first], ReadChecked(artifact, name));
    }
    FUSEC_TRY(ReadSources(artifact));
  } catch (const Json::exception& error) {
    return Fail(ErrorKind::kArtifact, file + ": " + error.what());
  } catch (const std::out_of_range&) {
    return Fail(ErrorKind::kArtifact, file + ": files lacks the hash of a file");
  }
  return artifact;
}

Result<std::map<std::string, std::string>> EmitAgain(const std::string& artifact,
                                                     const std::string& target) {
  FUSEC_ASSIGN(ArtifactSource source, ReadArtifactSource(artifact));
  if (!target.empty())
    std::erase_if(source.targets, [&](const TargetSource& made) { return made.name != target; });
  FUSEC_TRY(EmitTargets(source.targets, source.title, source.options, source.contents));
  return std::move(source.contents.files);
}

Result<std::vector<const KernelSource*>> SourcesOf(const EditableArtifact& artifact,
                                                   ArrayRef<std::string> kernels) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::string>> paths;  // paths of sources, by kernel
  ForEachKernel(artifact.original, [&](const Json& step) {
    const std::string name = step.at("name");
    if (paths.count(name) == 0) names.push_back(name);
    paths[name].push_back(step.at("source"));
  });
  for (const std::string& kernel : kernels) {
    if (paths.count(kernel) != 0) continue;
    return Fail(ErrorKind::kUsage, artifact.path + " has no generated kernel \"" + kernel + "\"" +
                                       DidYouMean(kernel, names) + "; it has " + Join(names, ", "));
  }
  std::vector<const KernelSource*> sources;
  for (const KernelSource& source : artifact.sources) {
    const bool wanted = std::any_of(kernels.begin(), kernels.end(), [&](const std::string& kernel) {
      const auto& of_kernel = paths[kernel];
      return std::find(of_kernel.begin(), of_kernel.end(), source.path) != of_kernel.end();
    });
    if (wanted || kernels.empty()) sources.push_back(&source);
  }
  return sources;
}

Result<void> WriteOriginal(const EditableArtifact& artifact, const std::string& folder) {
  FUSEC_TRY(WriteFileIn(folder, "manifest.json", artifact.original_manifest));
  for (const auto& [path, hash] : artifact.original.at("files").items()) {
    const auto kept = artifact.kept.find(path);
    const auto source =
        std::find_if(artifact.sources.begin(), artifact.sources.end(),
                     [&, name = path](const KernelSource& s) { return s.path == name; });
    if (kept != artifact.kept.end()) {
      FUSEC_TRY(WriteFileIn(folder, path, kept->second));
    } else if (source != artifact.sources.end()) {
      FUSEC_TRY(WriteFileIn(folder, path, source->original));
    } else {
      FUSEC_TRY(LinkFile(artifact, path, folder));
    }
  }
  return {};
}

Result<void> LinkFile(const EditableArtifact& artifact, const std::string& path,
                      const std::string& folder) {
  const std::string from = artifact.path + "/" + path, to = folder + "/" + path;
  if (path != "weights.safetensors") FUSEC_TRY(ReadChecked(artifact, path));
  std::error_code error;
  fs::create_directories(fs::path(to).parent_path(), error);
  if (!error) fs::create_hard_link(from, to, error);
  if (error) {
    error.clear();
    fs::copy_file(from, to, error);
  }
  if (error)
    return Fail(ErrorKind::kUsage, "cannot copy " + from + " to " + to + ": " + error.message());
  return {};
}

Result<void> WriteFileIn(const std::string& folder, const std::string& path,
                         const std::string& bytes) {
  const std::string file = folder + "/" + path;
  std::error_code error;
  fs::create_directories(fs::path(file).parent_path(), error);
  if (error)
    return Fail(ErrorKind::kUsage, "cannot create a folder for " + file + ": " + error.message());
  fs::remove(file, error);  // writing to a hard link would change the other file, too
  return WriteFile(file, bytes);
}

}  // namespace fusec
