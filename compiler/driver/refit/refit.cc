#include "compiler/driver/refit/refit.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>

#include "compiler/driver/artifact/artifact_ir.h"
#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/driver/build/compile.h"
#include "compiler/driver/build/recorded_flags.h"
#include "compiler/driver/edit/editable_artifact.h"
#include "compiler/driver/refit/new_weights.h"
#include "compiler/driver/refit/same_program.h"
#include "compiler/driver/shard/model_parts.h"
#include "compiler/driver/shard/recorded_parts.h"
#include "compiler/driver/tune/artifact_source.h"
#include "compiler/package/artifact_folder.h"
#include "compiler/package/output_path.h"
#include "compiler/package/sharded_manifest.h"
#include "compiler/support/read_file.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

bool IsSafetensors(const std::string& path) {
  return path.ends_with(".safetensors") || path.ends_with(kWeightsIndex);
}

// The options with which the artifact was compiled, for the model with the new weights.
Result<CompileOptions> OptionsOf(const RefitOptions& refit, const Json& manifest) {
  CompileOptions options;
  options.model_path = refit.weights;
  if (IsSafetensors(refit.weights)) {
    if (refit.model.empty()) {
      return Fail(ErrorKind::kUsage,
                  "--weights " + refit.weights +
                      " has no graph, expected the model that it belongs to as --model MODEL.onnx");
    }
    options.model_path = refit.model;
    FUSEC_ASSIGN(options.weights, ReadWeights(refit.weights));
    if (!refit.exported_with.empty()) {
      FUSEC_ASSIGN(options.exported_with, ReadWeights(refit.exported_with));
    }
  } else if (!refit.exported_with.empty()) {
    return Fail(ErrorKind::kUsage,
                "--exported-with is only for weights in a .safetensors file, and " + refit.weights +
                    " is a model itself");
  } else if (!refit.model.empty()) {
    return Fail(ErrorKind::kUsage, "--model is only for weights in a .safetensors file, and " +
                                       refit.weights + " is a model itself");
  }
  FUSEC_ASSIGN(ModelFlags flags, RecordedFlags(refit.artifact, manifest));
  flags.freezes = refit.freezes;
  FUSEC_TRY(ApplyModelFlags(flags, options));
  for (const std::string name : manifest.value("frozen_inputs", Json::array())) {
    if (options.frozen_inputs.count(name) == 0)
      return Fail(ErrorKind::kUsage, "input \"" + name + "\" was frozen when " + refit.artifact +
                                         " was compiled, expected --freeze " + name + "=FILE");
  }
  const DimSymbol usual;
  for (const Json& symbol : manifest.at("symbols")) {
    const int64_t low = symbol.at("min"), high = symbol.at("max");
    if (low != usual.low || high != usual.high) options.dim_ranges[symbol.at("name")] = {low, high};
  }
  options.targets.clear();
  for (const auto& [name, target] : manifest.at("targets").items()) options.targets.push_back(name);
  options.progress = refit.progress;
  return options;
}

// Counts the constants and their bytes, and those that differ from the artifact's.
Result<void> CountChanges(const std::string& artifact, const ArtifactContents& contents,
                          RefitReport& report) {
  std::set<std::string> seen, changed;  // names of constants
  for (const TargetContents& target : contents.targets) {
    FUSEC_ASSIGN(const auto old, ReadFusedGraph(artifact, target.name));
    std::map<std::string, std::string> hashes;
    for (const auto& node : old->nodes) {
      if (node->kind == OpKind::kConstant) hashes[node->result()->name] = node->constant_hash;
    }
    for (const auto& node : target.graph->nodes) {
      if (node->kind != OpKind::kConstant) continue;
      const std::string& name = node->result()->name;
      const auto bytes = static_cast<int64_t>(node->constant.byte_count());
      if (seen.insert(name).second) report.bytes += bytes;
      if (hashes[name] != node->constant_hash && changed.insert(name).second)
        report.changed_bytes += bytes;
    }
  }
  report.tensors += static_cast<int64_t>(seen.size());
  report.changed_tensors += static_cast<int64_t>(changed.size());
  return {};
}

// Changes a manifest of the artifact to that of the new weights: takes buffers, warnings, fp8
// layers and specializations from `fresh`, and the hashes of new files.
void PutWeights(const Json& fresh, const std::map<std::string, std::string>& new_hashes,
                Json& manifest) {
  manifest.erase("hash");
  manifest["buffers"] = fresh.at("buffers");
  manifest["warnings"] = fresh.at("warnings");
  if (fresh.contains("fp8")) manifest["fp8"] = fresh.at("fp8");
  if (fresh.contains("specialized"))
    manifest["specialized"] = fresh.at("specialized");
  else
    manifest.erase("specialized");
  manifest["files"][kWeightsProgram] = "";  // artifacts of older versions lack it
  for (const auto& [path, hash] : new_hashes) {
    if (manifest["files"].contains(path)) manifest["files"][path] = hash;
  }
}

class Refitter {
 public:
  Refitter(const EditableArtifact& artifact, const ArtifactContents& contents, const Json& manifest,
           const ArtifactImage& image)
      : artifact_(artifact), contents_(contents), fresh_(manifest), image_(image) {}

  Result<void> Write(const std::string& folder) {
    FUSEC_ASSIGN(new_hashes_[kWeightsFile], image_.WriteWeights(folder));
    std::set<std::string> graphs = {kWeightsProgram};
    for (const TargetContents& target : contents_.targets) graphs.insert(target.ir);
    for (const std::string& path : graphs) {
      const std::string& text = contents_.files.at(path);
      FUSEC_TRY(WriteFileIn(folder, path, text));
      new_hashes_[path] = HashOf(text);
    }
    const std::string original = std::string(kOriginals) + "manifest.json";
    for (const auto& [path, hash] : artifact_.hashes) {
      if (new_hashes_.count(path) == 0 && path != original)
        FUSEC_TRY(LinkFile(artifact_, path, folder));
    }
    if (artifact_.hashes.count(original) != 0) FUSEC_TRY(WriteManifest(folder, original));
    return WriteManifest(folder, "manifest.json");
  }

 private:
  Result<void> WriteManifest(const std::string& folder, const std::string& path) {
    FUSEC_ASSIGN(const std::string old,
                 ReadWholeFile(artifact_.path + "/" + path, ErrorKind::kArtifact));
    Json manifest = Json::parse(old);
    PutWeights(fresh_, new_hashes_, manifest);
    const std::string text = ManifestText(manifest);
    new_hashes_[path] = HashOf(text);
    return WriteFileIn(folder, path, text);
  }

  const EditableArtifact& artifact_;
  const ArtifactContents& contents_;
  const Json& fresh_;
  const ArtifactImage& image_;
  std::map<std::string, std::string> new_hashes_;
};

// Writes the artifact at `path`, with the weights of `model`, into `folder`.
Result<void> RefitInto(const std::string& folder, const std::string& path, FusedModel model,
                       const CompileOptions& compile, RefitReport& report) {
  FUSEC_ASSIGN(const EditableArtifact artifact, ReadEditable(path));
  if (const auto altered = std::find_if(artifact.sources.begin(), artifact.sources.end(),
                                        [](const KernelSource& s) { return s.altered; });
      altered != artifact.sources.end()) {
    return Fail(ErrorKind::kUsage, path + "/" + altered->path +
                                       " was edited but not rebuilt: run fusec rebuild first");
  }
  FUSEC_ASSIGN(TuningFile tuning, ReadTuning(path));
  for (TargetSource& target : model.targets) target.tuning = tuning[target.name].Winners();
  // The header comments of kernels name the model from which the artifact was compiled.
  model.title = {artifact.original.at("model"), artifact.original.at("opset")};
  ArtifactContents& contents = model.contents;
  FUSEC_TRY(EmitTargets(model.targets, model.title,
                        {compile.matmul_precision, compile.batch_invariant}, contents));
  const ArtifactImage image(contents);
  const Json manifest = image.Manifest({});
  FUSEC_TRY(CheckSameProgram(artifact, {contents, manifest, compile.model_path}));
  report.warnings.insert(report.warnings.end(), contents.warnings.begin(), contents.warnings.end());
  FUSEC_TRY(CountChanges(path, contents, report));
  if (compile.progress) compile.progress("writing the weights", 0.5);
  return Refitter(artifact, contents, manifest, image).Write(folder);
}

Result<void> MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directory(path, error);
  if (!error) return {};
  return Fail(ErrorKind::kUsage, "cannot create " + path + ": " + error.message());
}

// Refits all parts of a sharded artifact. Tables stay on their shards.
Result<bool> RefitParts(const RefitOptions& options, const Json& manifest, RefitReport& report) {
  FUSEC_ASSIGN(CompileOptions compile, OptionsOf(options, manifest));
  FUSEC_TRY(TakePartsOptions(options.artifact, manifest, compile));
  FUSEC_ASSIGN(const SimplifiedModel model, SimplifyModel(compile));
  FUSEC_ASSIGN(const std::vector<ModelPart> parts, TakeApartAsBefore(model, manifest.at("shards")));
  report.warnings = model.contents.warnings;
  return ReplaceFolder(options.output, [&](const std::string& folder) -> Result<bool> {
    for (const ModelPart& part : parts) {
      FUSEC_TRY(MakeFolder(folder + "/" + part.folder));
      FUSEC_ASSIGN(FusedModel fused, FusePart(part, compile));
      FUSEC_TRY(RefitInto(folder + "/" + part.folder, options.artifact + "/" + part.folder,
                          std::move(fused), compile, report));
    }
    FUSEC_TRY(WriteShardedManifest(folder, manifest));
    return true;
  });
}

Result<bool> RefitWhole(const RefitOptions& options, const Json& manifest, RefitReport& report) {
  FUSEC_TRY(CheckNoPart(options.artifact));
  FUSEC_ASSIGN(const CompileOptions compile, OptionsOf(options, manifest));
  FUSEC_ASSIGN(FusedModel model, FuseModel(compile));
  return ReplaceFolder(options.output, [&](const std::string& folder) -> Result<bool> {
    FUSEC_TRY(RefitInto(folder, options.artifact, std::move(model), compile, report));
    return true;
  });
}

Result<RefitReport> RefitReadable(const RefitOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  FUSEC_TRY(CheckOutputPath(options.output));
  FUSEC_TRY(CheckArtifact(options.artifact));
  FUSEC_ASSIGN(const Json manifest, ReadManifest(options.artifact));
  RefitReport report;
  if (IsSharded(manifest))
    FUSEC_TRY(RefitParts(options, manifest, report));
  else
    FUSEC_TRY(RefitWhole(options, manifest, report));
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace

Result<RefitReport> RefitArtifact(const RefitOptions& options) {
  try {
    return RefitReadable(options);
  } catch (const Json::exception& error) {
    return Fail(ErrorKind::kArtifact, options.artifact + "/manifest.json: " + error.what());
  }
}

}  // namespace fusec
