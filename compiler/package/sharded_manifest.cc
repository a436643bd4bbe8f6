#include "compiler/package/sharded_manifest.h"

#include <nlohmann/json.hpp>

#include "compiler/support/check.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

// The buffers of a manifest by name, to which those are added that only parts have.
class SharedBuffers {
 public:
  explicit SharedBuffers(Json& buffers) : buffers_(buffers) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      const std::string kind = buffers[i].at("kind");
      numbers_[{kind == "input", buffers[i].at("name")}] = i;
    }
  }

  size_t Read(const std::string& name) {
    for (const bool is_input :
         {false,
          true}) {  // what an earlier part made is read before the model's input of that name
      const auto found = numbers_.find({is_input, name});
      if (found != numbers_.end() && (is_input || made_.count(name) != 0)) return found->second;
    }
    FUSEC_CHECK(false, "a part reads \"" + name + "\", which no earlier one makes");
  }
  size_t Make(const std::string& name, const TensorType& type) {
    made_.insert(name);
    const auto [place, is_new] = numbers_.emplace(std::pair(false, name), buffers_.size());
    if (is_new) {
      buffers_.push_back({{"name", name},
                          {"kind", "arena"},
                          {"dtype", DtypeName(type.dtype)},
                          {"elements", type.ElementCount().ToString()}});
    }
    return place->second;
  }

 private:
  Json& buffers_;
  std::map<std::pair<bool, std::string>, size_t>
      numbers_;  // by whether it is an input of the model, and name
  std::set<std::string> made_;
};

Json StepJson(const ArtifactPart& part, SharedBuffers& buffers) {
  Json inputs = Json::array(), outputs = Json::array();
  Expr read, written;
  for (size_t i = 0; i < part.graph->inputs.size(); ++i) {
    inputs.push_back(buffers.Read(part.graph->InputName(i)));
    read = read + part.graph->inputs[i]->type.Bytes();
  }
  for (size_t i = 0; i < part.graph->outputs.size(); ++i) {
    outputs.push_back(buffers.Make(part.graph->OutputName(i), part.graph->outputs[i]->type));
    written = written + part.graph->outputs[i]->type.Bytes();
  }
  return {{"kind", "artifact"},
          {"name", part.folder},
          {"folder", part.folder},
          {"inputs", inputs},
          {"outputs", outputs},
          {"bytes_read", read.ToString()},
          {"bytes_written", written.ToString()},
          {"flops", "0"}};
}

}  // namespace

Json ShardedManifest(const std::shared_ptr<const Graph>& graph, ArtifactContents contents,
                     ArrayRef<ArtifactPart> parts,
                     const std::map<std::string, std::string>& hashes) {
  TargetContents target;
  target.name = "shards";
  target.graph = graph;
  contents.targets.clear();
  contents.targets.push_back(std::move(target));
  contents.tables.clear();  // parts have them
  contents.specializations.clear();
  const ArtifactImage image(contents);
  Json manifest = image.Manifest(hashes);
  SharedBuffers buffers(manifest["buffers"]);
  Json steps = Json::array();
  for (const ArtifactPart& part : parts) steps.push_back(StepJson(part, buffers));
  manifest["targets"]["shards"]["steps"] = std::move(steps);
  return manifest;
}

}  // namespace fusec
