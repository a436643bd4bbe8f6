#include "compiler/driver/artifact/artifact_ir.h"

#include <map>
#include <span>

#include "compiler/driver/artifact/artifact_session.h"
#include "compiler/driver/artifact/manifest_json.h"
#include "compiler/driver/artifact/mapped_weights.h"
#include "compiler/plan/matmul/weight_panels.h"
#include "compiler/support/read_file.h"
#include "passes/check_fused.h"
#include "runtime/src/artifact/hash.h"
#include "runtime/src/artifact/safetensors.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

// Reads the graph in a file of the artifact, whose hash must be `expected`, that of the manifest.
Result<std::unique_ptr<Graph>> ReadGraph(const std::string& artifact, const std::string& name,
                                         const std::string& expected) {
  const std::string file = artifact + "/" + name;
  FUSEC_ASSIGN(const std::string text, ReadWholeFile(file, ErrorKind::kArtifact));
  const std::string hash = runtime::Hash128(std::as_bytes(std::span(text)));
  if (hash != expected) {
    return Fail(ErrorKind::kArtifact,
                file + ": was altered: its hash is " + hash + ", expected " + expected);
  }
  Result<std::unique_ptr<Graph>> graph = Parse(text);
  if (!graph) return Fail(ErrorKind::kArtifact, file + ": " + graph.error().message);
  if (auto verified = Verify(**graph); !verified)
    return Fail(ErrorKind::kArtifact, file + ": " + verified.error().message);
  if ((*graph)->input_names.size() != (*graph)->inputs.size() ||
      (*graph)->output_names.size() != (*graph)->outputs.size())
    return Fail(ErrorKind::kArtifact, file + ": its inputs or outputs have no quoted names");
  return graph;
}

}  // namespace

Result<std::unique_ptr<Graph>> ReadFusedGraph(const std::string& artifact,
                                              const std::string& target) {
  const std::string manifest = artifact + "/manifest.json";
  FUSEC_ASSIGN(const Json json, ReadManifest(artifact));
  const Json file = json.value(Json::json_pointer("/targets/" + target + "/ir"), Json());
  if (!file.is_string()) {
    return Fail(ErrorKind::kArtifact,
                manifest + ": targets." + target +
                    " names no file \"ir\": was the artifact made by an earlier fusec?");
  }
  const std::string name = file.get<std::string>();
  const Json hash = json.value("files", Json::object()).value(name, Json());
  if (!hash.is_string())
    return Fail(ErrorKind::kArtifact, manifest + ": files has no hash of \"" + name + "\"");
  FUSEC_ASSIGN(auto graph, ReadGraph(artifact, name, hash.get<std::string>()));
  if (auto checked = CheckFused(*graph); !checked)
    return Fail(ErrorKind::kArtifact, artifact + "/" + name + ": " + checked.error().message);
  return graph;
}

Result<std::unique_ptr<Graph>> ReadWeightsProgram(const std::string& artifact) {
  const std::string manifest = artifact + "/manifest.json";
  FUSEC_ASSIGN(const Json json, ReadManifest(artifact));
  const Json files = json.value("files", Json::object());
  const Json hash = files.is_object() ? files.value(kWeightsProgram, Json()) : Json();
  if (!hash.is_string()) {
    return Fail(ErrorKind::kArtifact, manifest + ": files has no " + kWeightsProgram +
                                          ": was the artifact made by an earlier fusec?");
  }
  return ReadGraph(artifact, kWeightsProgram, hash.get<std::string>());
}

std::vector<const Node*> RegionsOf(const Graph& graph) {
  std::vector<const Node*> regions;
  for (const auto& node : graph.nodes) {
    if (node->kind == OpKind::kRegion) regions.push_back(node.get());
  }
  return regions;
}

namespace {

// Loads the data of a constant from the first layout in which the artifact stores it.
Result<void> LoadPayload(Node& constant,
                         const std::map<std::string, runtime::StoredTensor>& tensors,
                         const std::shared_ptr<MappedWeights>& owner, const std::string& file) {
  const TensorType& type = constant.result()->type;
  const auto dims = StaticShape(type.shape);
  for (const WeightLayout layout : kWeightLayouts) {
    const std::string name = constant.result()->name + LayoutSuffix(layout);
    // Constants of different targets that share a name have their hash appended to it.
    auto stored = tensors.find(name + "." + constant.constant_hash);
    if (stored == tensors.end()) stored = tensors.find(name);
    if (stored == tensors.end()) continue;  // no step reads this layout
    const std::span<const std::byte> bytes = stored->second.bytes;
    const bool is_plain = layout == WeightLayout::kPlain;
    std::optional<TensorData> data;
    if (dims && !is_plain) data = FromLayout(type.dtype, *dims, bytes, layout);
    if (dims && is_plain) {
      data = TensorData(type.dtype, *dims, owner, bytes.data(), /*in_file=*/true);
      if (data->byte_count() != bytes.size()) data.reset();
    }
    // Layouts other than plain and panels round the data, so their hash differs from the
    // constant's.
    const bool is_exact = is_plain || layout == WeightLayout::kPanels;
    if (!data || (is_exact && data->Hash() != constant.constant_hash)) {
      return Fail(ErrorKind::kArtifact, file + ": tensor \"" + stored->first +
                                            "\" is not the one that was compiled in: expected " +
                                            type.ToString() + " with hash " +
                                            constant.constant_hash);
    }
    constant.constant = *std::move(data);
    return {};
  }
  return {};
}

}  // namespace

Result<void> LoadPayloads(const std::string& artifact, Graph& graph) {
  const std::string file = artifact + "/weights.safetensors";
  FUSEC_RUNTIME_ASSIGN(auto mapped, runtime::MappedFile::Open(file));
  const auto owner = std::make_shared<MappedWeights>(std::move(mapped));
  FUSEC_RUNTIME_ASSIGN(const auto tensors, runtime::ReadSafetensors(owner->file.bytes(), file));
  for (const auto& node : graph.nodes) {
    if (node->kind != OpKind::kConstant) continue;
    FUSEC_TRY(LoadPayload(*node, tensors, owner, file));
  }
  return {};
}

}  // namespace fusec
