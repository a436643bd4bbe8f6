#include "compiler/package/sharded_manifest.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/package/artifact_folder.h"
#include "compiler/support/check.h"
#include "compiler/support/read_file.h"
#include "compiler/support/write_file.h"
#include "runtime/src/artifact/manifest.h"

namespace fusec {

namespace {

using Json = nlohmann::ordered_json;

// The buffers of a manifest by name. Buffers that only parts have are added.
class SharedBuffers {
 public:
  explicit SharedBuffers(Json& buffers) : buffers_(buffers) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      const std::string kind = buffers[i].at("kind");
      numbers_[{kind == "input", buffers[i].at("name")}] = i;
    }
  }

  // The result of an earlier part takes precedence over the model's input of the same name.
  size_t Read(const std::string& name) const {
    const auto found = numbers_.find({made_.count(name) == 0, name});
    FUSEC_CHECK(found != numbers_.end(),
                "a part reads \"" + name + "\", which no earlier one makes");
    return found->second;
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
  // The key is: whether the buffer is an input of the model, and its name.
  std::map<std::pair<bool, std::string>, size_t> numbers_;
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

// The columns of each table: the end of its last part.
std::map<std::string, int64_t> ColumnsOf(ArrayRef<ArtifactPart> parts) {
  std::map<std::string, int64_t> columns;
  for (const ArtifactPart& part : parts) {
    for (const RowTable& table : part.tables) {
      int64_t& most = columns[table.table];
      most = std::max(most, part.starts.at(table.table).column + table.columns);
    }
  }
  return columns;
}

// The tables of all parts, and which part stores which of their rows.
Json TablesJson(ArrayRef<ArtifactPart> parts) {
  std::map<std::string, Json> tables;
  std::map<std::string, int64_t> columns = ColumnsOf(parts);
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const RowTable& table : parts[i].tables) {
      Json& item = tables[table.table];
      if (item.is_null()) {
        item = {{"table", table.table},
                {"dtype", DtypeName(table.dtype)},
                {"rows", 0},
                {"columns", columns.at(table.table)}};
        if (table.fixed.empty()) item["storage"] = table.storage;
      }
      if (!table.fixed.empty()) item["fixed"] = table.fixed;
      const PartStart start = parts[i].starts.at(table.table);
      Json place = {{"step", i}, {"first_row", start.row}, {"rows", table.rows}};
      if (table.columns != columns.at(table.table)) {
        place["first_column"] = start.column;
        place["columns"] = table.columns;
      }
      item["parts"].push_back(std::move(place));
      item["rows"] = std::max(item["rows"].get<int64_t>(), start.row + table.rows);
    }
  }
  Json list = Json::array();
  for (auto& [name, item] : tables) {
    if (item.contains("fixed")) item.erase("parts");
    list.push_back(std::move(item));
  }
  return list;
}

std::string ManifestOf(const std::string& folder) { return folder + "/manifest.json"; }

Result<Json> ReadJson(const std::string& path) {
  FUSEC_ASSIGN(const std::string text, ReadWholeFile(path, ErrorKind::kArtifact));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) return json;
  return Fail(ErrorKind::kArtifact, path + " is not a JSON object");
}

// The folders of the parts of a sharded artifact.
std::vector<std::string> FoldersOf(const Json& manifest) {
  std::vector<std::string> folders;
  const Json steps = manifest.value(Json::json_pointer("/targets/shards/steps"), Json::array());
  for (const Json& step : steps) folders.push_back(step.value("folder", ""));
  return folders;
}

}  // namespace

Json ShardedManifest(const std::shared_ptr<const Graph>& graph, ArtifactContents contents,
                     ArrayRef<ArtifactPart> parts) {
  TargetContents target;
  target.name = runtime::kShardsTarget;
  target.graph = graph;
  contents.targets.clear();
  contents.targets.push_back(std::move(target));
  contents.tables.clear();  // these refer to constants
  contents.specializations.clear();
  const ArtifactImage image(contents);
  Json manifest = image.Manifest({});
  SharedBuffers buffers(manifest["buffers"]);
  Json steps = Json::array();
  for (const ArtifactPart& part : parts) steps.push_back(StepJson(part, buffers));
  manifest["targets"][runtime::kShardsTarget]["steps"] = std::move(steps);
  manifest["tables"] = TablesJson(parts);
  return manifest;
}

Result<void> WriteShardedManifest(const std::string& folder, Json manifest) {
  Json files = Json::object();
  for (const std::string& part : FoldersOf(manifest)) {
    const std::string path = ManifestOf(part);
    FUSEC_ASSIGN(const std::string text, ReadWholeFile(folder + "/" + path, ErrorKind::kArtifact));
    files[path] = HashOf(text);
    FUSEC_ASSIGN(const Json part_manifest, ReadJson(folder + "/" + path));
    for (const auto& [file, hash] : part_manifest.at("files").items())
      files[part + "/" + file] = hash;
  }
  manifest.erase("hash");
  manifest["files"] = std::move(files);
  return WriteWholeFile(ManifestOf(folder), ManifestText(manifest));
}

Result<void> NoteChangedPart(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!std::filesystem::is_regular_file(ManifestOf(folder.string()), error)) return {};
  const auto manifest = ReadJson(ManifestOf(folder.string()));
  if (!manifest) return {};  // not a manifest of fusec
  const std::vector<std::string> parts = FoldersOf(*manifest);
  const std::string name = std::filesystem::path(path).filename().string();
  if (std::find(parts.begin(), parts.end(), name) == parts.end()) return {};
  return WriteShardedManifest(folder.string(), *manifest);
}

}  // namespace fusec
